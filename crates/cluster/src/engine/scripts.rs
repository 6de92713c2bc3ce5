//! Scripts that run inside the engine, each as one step: no other command comes in between. They need Redis 7.0 or Valkey 7.2.

/// A script and the name that the engine has for it once it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Says who the engine is and what time it has. Keys: the mark, the check of the secret. Arguments: the mark that a new
    /// engine gets, and the check of this node. Answers the mark, the check, the time in milliseconds, and whether the mark is
    /// new.
    Join,
    /// Changes pairs of a zone. Keys: the table, the log. Arguments: the verb, the node, the length of the log, and what the
    /// verb needs. Answers `ok` and the identifier of the entry, or why nothing was changed.
    Pairs,
    /// Removes pairs whose time is over. Keys: the table. Arguments: the cursor, the number of pairs that are looked at.
    /// Answers the next cursor.
    Sweep,
    /// Tells that a node lives. Keys: the list of nodes, the node's own table. Arguments: the node, the time in milliseconds
    /// after which a silent node is gone, and names and values of the table. Answers the time in milliseconds, and the number
    /// of nodes.
    Beat,
    /// Replaces the mark. Keys: the mark. Arguments: the mark that is there, and the new one. Answers 1, or 0 if another one is
    /// there.
    Mark,
    /// Lists the nodes that live. Keys: the list of nodes. Arguments: the number of nodes, and the beginning of the names of
    /// their tables. Answers for each its identifier, the time, and its table.
    Nodes,
    /// Counts requests in the buckets of a zone, and takes some ahead of their use. Keys: the beginning of the names of the tables
    /// with the buckets. Arguments: the microseconds in which a bucket loses a request; the burst; the window of a table, in
    /// milliseconds; the most buckets of a table. New ones beyond are granted nothing. For each bucket there are three more: its
    /// name, the requests that are counted whatever there is, and the requests that are wanted. Answers two numbers for each: the
    /// requests that it has, and the microseconds after which it would have been empty before they were taken.
    ///
    /// A bucket is the time at which it is empty. Each window of time has a table of buckets. The table of the present window and
    /// the one before have all buckets that are not empty, so whole tables end by themselves.
    Buckets,
    /// Reads the list of ticket keys, and puts a new one before them if the newest is too old. Keys: the list. Arguments: the age at
    /// which a key is too old, in milliseconds; the most keys; and the new key, or nothing. Answers the time in milliseconds, and
    /// for each key the time at which it was put there, a bar, and the key.
    Tickets,
}

/// All scripts, by their numbers.
pub(super) const ALL: [(Script, &str); 8] = [
    (Script::Join, JOIN),
    (Script::Pairs, PAIRS),
    (Script::Sweep, SWEEP),
    (Script::Beat, BEAT),
    (Script::Mark, MARK),
    (Script::Nodes, NODES),
    (Script::Buckets, BUCKETS),
    (Script::Tickets, TICKETS),
];

const JOIN: &str = r"
local time = redis.call('TIME')
local mark = redis.call('GET', KEYS[1])
local is_new = 0
if not mark then
  mark = ARGV[1]
  is_new = 1
  redis.call('SET', KEYS[1], mark)
end
local check = redis.call('GET', KEYS[2])
if not check then
  check = ARGV[2]
  redis.call('SET', KEYS[2], check)
end
return {mark, check, time[1] * 1000 + math.floor(time[2] / 1000), is_new}
";

const PAIRS: &str = r"
local verb, node, length = ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function is_there(stored)
  if not stored then return false end
  local till = tonumber(string.match(stored, '^(%d+)|'))
  return till ~= nil and (till == 0 or till > now)
end
local function till(lasts)
  if lasts == '' then return '0' end
  return string.format('%.0f', now + tonumber(lasts))
end
local function note(...)
  return redis.call('XADD', KEYS[2], 'MAXLEN', '~', length, '*', 'n', node, ...)
end
local function put(name, stored)
  redis.call('HSET', KEYS[1], name, stored)
  return note('o', 's', 'k', name, 'v', stored)
end
if verb == 'add' then
  if #ARGV > 6 and redis.call('HLEN', KEYS[1]) > 0 then
    if redis.call('HLEN', KEYS[1]) > 1000 then return {'notempty'} end
    for _, stored in ipairs(redis.call('HVALS', KEYS[1])) do
      if is_there(stored) then return {'notempty'} end
    end
  end
  for at = 4, #ARGV, 3 do
    if is_there(redis.call('HGET', KEYS[1], ARGV[at])) then return {'exists'} end
  end
  local id = ''
  for at = 4, #ARGV, 3 do
    id = put(ARGV[at], till(ARGV[at + 2]) .. '|' .. ARGV[at + 1])
  end
  return {'ok', id}
elseif verb == 'set' then
  local stored = redis.call('HGET', KEYS[1], ARGV[4])
  if not is_there(stored) then return {'missing'} end
  local bar = string.find(stored, '|', 1, true)
  local ends, payload = string.sub(stored, 1, bar - 1), string.sub(stored, bar + 1)
  if ARGV[5] == 'new' then payload = ARGV[6] end
  if ARGV[7] ~= 'keep' then ends = till(ARGV[7]) end
  return {'ok', put(ARGV[4], ends .. '|' .. payload)}
elseif verb == 'remove' or verb == 'drop' then
  local was_there = is_there(redis.call('HGET', KEYS[1], ARGV[4]))
  if verb == 'remove' and not was_there then return {'missing'} end
  redis.call('HDEL', KEYS[1], ARGV[4])
  return {'ok', note('o', 'd', 'k', ARGV[4], 'v', ARGV[5])}
elseif verb == 'clear' then
  redis.call('DEL', KEYS[1])
  return {'ok', note('o', 'c')}
elseif verb == 'put' then
  return {'ok', put(ARGV[4], ARGV[5])}
elseif verb == 'merge' then
  local id = ''
  for at = 4, #ARGV, 2 do
    if not is_there(redis.call('HGET', KEYS[1], ARGV[at])) then id = put(ARGV[at], ARGV[at + 1]) end
  end
  return {'ok', id}
end
return redis.error_reply('no such verb')
";

const SWEEP: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
for at = 1, #page[2], 2 do
  local till = tonumber(string.match(page[2][at + 1], '^(%d+)|'))
  if till and till ~= 0 and till <= now then redis.call('HDEL', KEYS[1], page[2][at]) end
end
return page[1]
";

const BEAT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {now, redis.call('ZCARD', KEYS[1])}
";

const MARK: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
";

const NODES: &str = r"
local list = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
local all = {}
for at = 1, #list, 2 do
  all[#all + 1] = {list[at], list[at + 1], redis.call('HGETALL', ARGV[2] .. list[at])}
end
return all
";

const BUCKETS: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, burst, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local count = (#ARGV - 4) / 3
local names = {}
for i = 1, count do names[i] = ARGV[3 * i + 2] end
local epoch = math.floor(now / 1000 / window)
local present, past = KEYS[1] .. epoch % 3, KEYS[1] .. (epoch + 2) % 3
local newer, older = redis.call('HMGET', present, unpack(names)), redis.call('HMGET', past, unpack(names))
local latest = now + window * 1000
local is_full = redis.call('HLEN', present) >= tonumber(ARGV[4])
local answers, buckets = {}, {}
for i = 1, count do
  local is_known = newer[i] or older[i]
  local full = tonumber(newer[i] or older[i] or now)
  full = math.max(full, now) + tonumber(ARGV[3 * i + 3]) * cost
  full = math.min(math.max(full, now), latest)
  local before = full - now
  local room = math.floor(burst - before / cost) + 1
  local granted = math.max(0, math.min(tonumber(ARGV[3 * i + 4]), room))
  if is_known or not is_full then
    buckets[#buckets + 1] = names[i]
    buckets[#buckets + 1] = string.format('%.0f', full + granted * cost)
  else
    granted, before = 0, 0
  end
  answers[2 * i - 1] = granted
  answers[2 * i] = math.floor(before)
end
if #buckets > 0 then
  redis.call('HSET', present, unpack(buckets))
  redis.call('PEXPIRE', present, 2 * window)
end
return answers
";

const TICKETS: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local newest = redis.call('LINDEX', KEYS[1], 0)
local made = newest and tonumber(string.match(newest, '^(%d+)|'))
if ARGV[3] ~= '' and (not made or now - made >= tonumber(ARGV[1])) then
  redis.call('LPUSH', KEYS[1], string.format('%.0f', now) .. '|' .. ARGV[3])
  redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[2]) - 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1] * ARGV[2])
end
return {now, redis.call('LRANGE', KEYS[1], 0, -1)}
";
