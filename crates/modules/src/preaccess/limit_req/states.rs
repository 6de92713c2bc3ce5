//! The states of the keys in a zone of `limit_req`: 24 bytes for each, in a table of fixed size without locks.
//!
//! A state is one word, and beside it is the time of its last use: see [`KeyTable`].

use std::sync::atomic::Ordering;
use std::time::Instant;

use freerun_runtime::log::clock;
use freerun_serve::configuration::zones::StateBytes;
use freerun_serve::limits::bucket::{Bucket, BucketState, Judgement, update};
use freerun_serve::limits::key_table::{BUSY, EMPTY, KeyTable, WAYS};
use freerun_serve::limits::{Hasher, SECRETS};

/// The number of bytes of one state.
#[cfg(test)]
pub const STATE_SIZE: u64 = 24;

/// The words of a key: its state, and the time of its last use.
const WORDS: usize = 2;

/// The number of words in a set.
const SET: usize = KeyTable::<WORDS>::SET;

/// The states of a zone.
#[derive(Debug)]
pub struct States {
    table: KeyTable<WORDS>,
    began: Instant,
    /// The time at `began`, on the clock of the process whose states these were.
    first: u32,
}

/// The first bytes of saved states, which name the format. The secrets of the fingerprints, the time, and the same time
/// in milliseconds since 1970 follow. Then come the number of words of the table, and of each set that has a state its
/// number and its words. All numbers have 64 bits.
const FORMAT: &[u8; 8] = b"states 1";

impl States {
    /// A table of as many states as `size` bytes hold. `None` if there is not enough memory.
    pub fn new(size: u64) -> Option<States> {
        States::with(size, Hasher::default(), 0)
    }

    fn with(size: u64, hasher: Hasher, first: u32) -> Option<States> {
        Some(States { table: KeyTable::new(size, hasher)?, began: Instant::now(), first })
    }

    /// The states as bytes, for [`States::restored`] in another process.
    pub fn save(&self) -> StateBytes {
        let mut saved = StateBytes::new(FORMAT.to_vec());
        let mut put = |number: u64| saved.extend_from_slice(&number.to_le_bytes());
        self.table.hasher().secrets().into_iter().for_each(&mut put);
        put(self.now().into());
        put(since_1970());
        put(self.table.words().len() as u64);
        for (number, set) in self.table.words().chunks_exact(SET).enumerate() {
            let mut words = [0; SET];
            // A tag comes first, so that a state that is given to another key meanwhile seems to be busy, or has its tag.
            for (word, known) in words.iter_mut().zip(set) {
                *word = known.load(Ordering::Acquire);
            }
            if words[..WAYS].iter().any(|tag| *tag > BUSY) {
                put(number as u64);
                words.into_iter().for_each(&mut put);
            }
        }
        saved
    }

    /// A table of this size with the states of [`States::save`]. `None`: these are of another size, or no such bytes.
    pub fn restored(size: u64, saved: &[u8]) -> Option<States> {
        let (numbers, rest) = saved.strip_prefix(FORMAT)?.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut secrets = [0; SECRETS];
        for secret in &mut secrets {
            *secret = numbers.next()?;
        }
        let now = u32::try_from(numbers.next()?).ok()?;
        let passed = since_1970().saturating_sub(numbers.next()?);
        let first = now.wrapping_add(u32::try_from(passed).unwrap_or(u32::MAX / 2));
        let states = States::with(size, Hasher::with(secrets), first)?;
        if numbers.next()? != states.table.words().len() as u64 || !rest.is_empty() {
            return None;
        }
        while let Some(number) = numbers.next() {
            let start = usize::try_from(number).ok()?.checked_mul(SET)?;
            for (way, word) in states.table.words().get(start..start.checked_add(SET)?)?.iter().enumerate() {
                let saved = numbers.next()?;
                word.store(if way < WAYS && saved == BUSY { EMPTY } else { saved }, Ordering::Relaxed);
            }
        }
        Some(states)
    }

    /// The current time for [`States::count`].
    pub fn now(&self) -> u32 {
        self.first.wrapping_add(self.began.elapsed().as_millis() as u32)
    }

    /// Counts a request with this key, unless it is beyond the burst.
    pub fn count(&self, key: &[u8], now: u32, bucket: Bucket) -> Judgement {
        let fresh = [BucketState { last: now, excess: 0 }.word(), now.into()];
        match self.table.entry(self.table.place(key), now, fresh) {
            Some(([state, _], Some(_))) => update(state, now, bucket),
            // A new state has this request as its first one.
            Some((_, None)) | None => Judgement::Within(0),
        }
    }

    /// The result that [`States::count`] would have, without counting.
    pub fn ask(&self, key: &[u8], now: u32, bucket: Bucket) -> Judgement {
        let Some([state, used]) = self.table.find(self.table.place(key)) else { return Judgement::Within(0) };
        used.store(now.into(), Ordering::Relaxed);
        bucket.judge(BucketState::of(state.load(Ordering::Relaxed)).with_one_more(now, bucket.rate))
    }
}

/// The time of day in milliseconds. From it another process knows how much time has passed.
fn since_1970() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use freerun_serve::limits::bucket::Judgement::{Beyond, Within};
    use freerun_serve::limits::bucket::{MAX_EXCESS, age};

    use super::*;

    const SIZE: u64 = 32 * 1024;

    fn states() -> States {
        States::new(SIZE).unwrap()
    }

    fn bucket(rate: u64, burst: u64) -> Bucket {
        Bucket { rate, burst: burst * 1000 }
    }

    /// The claim of docs/design about the sets: few keys are dropped too early, and these are about as old as most.
    #[test]
    fn what_was_asked_for_lately_stays_though_only_sixteen_are_compared() {
        let states = States::new(4096 * STATE_SIZE).unwrap();
        let capacity = states.table.capacity();
        let mut last_asked = std::collections::HashMap::new();
        let mut random = 88_172_645_463_325_252_u64;
        let mut now = 0;
        for _ in 0..40 * capacity {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Zipf's law with an exponent of 1, over ten times as many keys as there are states.
            let key = (10.0 * capacity as f64).powf((random >> 11) as f64 / (1_u64 << 53) as f64) as u64;
            now += 1;
            states.count(&key.to_le_bytes(), now, bucket(1000, 1));
            last_asked.insert(key, now);
        }
        let mut keys: Vec<(u32, u64)> = last_asked.into_iter().map(|(key, at)| (at, key)).collect();
        keys.sort_unstable_by(|one, other| other.cmp(one));
        let lost = |count: usize| {
            let is_lost = |key: u64| states.table.find(states.table.place(&key.to_le_bytes())).is_none();
            keys[..count].iter().filter(|(_, key)| is_lost(*key)).count()
        };
        // The distribution of keys over sets differs in each process.
        let [newest, newer, all] = [capacity / 4, capacity / 2, capacity].map(|count| (lost(count), count));
        assert!(newest.0 * 100 < newest.1, "the newest quarter of what the zone holds: {newest:?} lost");
        assert!(newer.0 * 25 < newer.1, "the newer half: {newer:?}");
        assert!(all.0 * 6 < all.1, "all that a single list would hold: {all:?}");
    }

    #[test]
    fn requests_leak_away_at_the_rate() {
        let states = states();
        let two = bucket(1000, 2);
        let told: Vec<Judgement> = [0, 0, 0, 0, 500, 1000, 1000, 1999, 10_000, 10_000]
            .iter()
            .map(|ms| states.count(b"k", 5 + ms, two))
            .collect();
        let wanted = [
            Within(0),
            Within(1000),
            Within(2000),
            Beyond(3000),
            Beyond(2500),
            Within(2000),
            Beyond(3000),
            Beyond(2001),
            Within(0),
            Within(1000),
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn slow_rates_keep_their_thousandths() {
        let states = states();
        // nginx logs 0.680 after 20 seconds of 1r/m: 16 thousandths a second.
        let slow = bucket(16, 0);
        assert_eq!(states.count(b"k", 0, slow), Within(0));
        // A refused request does not change the time.
        for ms in 0..20_000 {
            assert_eq!(states.count(b"k", ms, slow), Beyond(1000 - u64::from(ms) * 16 / 1000));
        }
        assert_eq!(states.ask(b"k", 20_000, slow), Beyond(680));
        assert_eq!(states.ask(b"k", 62_499, slow), Beyond(1));
        assert_eq!(states.count(b"k", 62_500, slow), Within(0));
    }

    #[test]
    fn states_go_on_in_another_process() {
        let old = states();
        let hard = bucket(1, 3);
        let now = old.now();
        for _ in 0..3 {
            old.count(b"k", now, hard);
        }
        old.count(b"other", now, hard);
        let saved = old.save();
        let new = States::restored(SIZE, &saved).unwrap();
        assert!(age(now, new.now()) < 60_000, "the clock goes on: {now} {}", new.now());
        assert_eq!(new.ask(b"k", now, hard), Within(3000));
        assert_eq!(new.ask(b"other", now, hard), Within(1000));
        assert_eq!(new.ask(b"new", now, hard), Within(0));
        assert!(saved.len() < 2000, "only what is used is saved: {}", saved.len());

        assert!(States::restored(2 * SIZE, &saved).is_none());
        for length in 0..saved.len() {
            // Whatever is missing, nothing panics, and no set is read in part.
            let cut = States::restored(SIZE, &saved[..length]);
            assert!(cut.is_none() || (length - 64) % (8 + 8 * SET) == 0, "{length}");
        }
        let mut wrong = saved.to_vec();
        wrong[64..72].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(States::restored(SIZE, &wrong).is_none(), "a set that the table does not have");
    }

    #[test]
    fn asking_counts_nothing() {
        let states = states();
        for _ in 0..5 {
            assert_eq!(states.ask(b"k", 0, bucket(1, 0)), Within(0));
        }
        states.count(b"k", 0, bucket(1, 5));
        for _ in 0..5 {
            assert_eq!(states.ask(b"k", 0, bucket(1, 5)), Within(1000));
        }
    }

    #[test]
    fn clocks_may_disagree_and_turn_over() {
        let states = states();
        let one = bucket(1000, 1);
        assert_eq!(states.count(b"a", 100, one), Within(0));
        assert_eq!(states.count(b"a", 90, one), Within(1000));
        assert_eq!(states.count(b"a", 1100, one), Within(1000));
        assert_eq!(states.count(b"b", u32::MAX - 99, one), Within(0));
        assert_eq!(states.count(b"b", 100, one), Within(800));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let states = states();
        let huge = Bucket { rate: u64::MAX, burst: u64::MAX };
        for now in [0, 0, 1, u32::MAX / 2] {
            assert!(matches!(states.count(b"k", now, huge), Within(_)));
        }
        let never = Bucket { rate: 0, burst: u64::MAX };
        states.count(b"full", 0, never);
        let [state, _] = states.table.find(states.table.place(b"full")).unwrap();
        state.store(BucketState { last: 0, excess: MAX_EXCESS as u32 }.word(), Ordering::Relaxed);
        assert_eq!(states.count(b"full", 0, never), Beyond(MAX_EXCESS + 1000));
    }

    #[test]
    fn memory_is_the_zones_size_and_the_least_recent_goes() {
        let states = states();
        assert!((SIZE - SET as u64 * 8..=SIZE).contains(&(states.table.capacity() as u64 * STATE_SIZE)));
        let hard = bucket(1, 0);
        // A client that is refused all the time, among a hundred times more keys than there is room for.
        assert_eq!(states.count(b"pest", 0, hard), Within(0));
        let mut now = 0;
        for number in 0..states.table.capacity() as u32 * 100 {
            now = number / 10;
            states.count(&number.to_le_bytes(), now, hard);
            if number % 100 == 0 {
                assert!(matches!(states.count(b"pest", now, hard), Beyond(_)), "after {number}");
            }
        }
        // The last key is known, the first one is not.
        let known = |number: u32| matches!(states.ask(&number.to_le_bytes(), now, hard), Beyond(_));
        let last = states.table.capacity() as u32 * 100;
        let young = (last - 200..last).filter(|number| known(*number)).count();
        assert!(young >= 198, "{young} of the last 200");
        assert_eq!((0..10_000).filter(|number| known(*number)).count(), 0);
    }

    #[test]
    fn as_many_keys_as_nginx_holds_in_the_same_memory_are_all_held() {
        // nginx needs 128 bytes for each state on 64-bit platforms.
        let states = States::new(1024 * 1024).unwrap();
        let hard = bucket(1, 0);
        for number in 0..8192_u32 {
            states.count(&number.to_le_bytes(), 0, hard);
        }
        for number in 0..8192_u32 {
            assert!(matches!(states.ask(&number.to_le_bytes(), 1, hard), Beyond(_)), "{number}");
        }
    }

    #[test]
    fn threads_together_get_what_one_would() {
        let states = states();
        let burst = bucket(0, 1000);
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..2000).filter(|_| matches!(states.count(b"all", 7, burst), Within(_))).count())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 1001);
    }
}
