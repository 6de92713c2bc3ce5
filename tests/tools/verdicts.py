#!/usr/bin/env python3
"""Asks two servers with -t about each directive of nginx with the values that its documentation shows, in several spellings,
and prints where one takes what the other refuses.

    tests/tools/verdicts.py NGINX FREERUN DIRECTIVES.TSV [NAME...]

DIRECTIVES.TSV has a line for each directive and module: name, module, contexts, default, version, edition, syntax.
"""
import itertools, os, re, subprocess, sys, tempfile

VALUES = {
    "number": ["1", "0", "-1", "x", "007", "1k"],
    "size": ["1k", "1K", "1M", "1g", "1G", "0", "-1", "x", "1kb"],
    "time": ["1s", "1S", "1m", "1M", "10ms", "10MS", "1H", "1y", "0", "x", "-1", "1.5s", "1h30m", "1h 30m"],
    "timeout": ["1s", "1S", "0", "x"],
    "rate": ["1k", "1K", "1M", "0", "x"],
    "code": ["503", "200", "99", "600", "x"],
    "address": ["127.0.0.1:81", "127.0.0.1:0", "[::1]:81", "[::1]:0", "[::1]", "127.1", "UNIX:/x", "unix:/x"],
    "uri": ["/x", "x", ""],
    "method": ["GET", "get", "x"],
    "mime-type": ["text/x", "TEXT/X", "*", "x"],
    "field": ["X-Y", "x y"],
    "string": ["x", "", "$arg_x", "${arg_x"],
}

WRAP = {
    "main": "%s\nevents { }\n",
    "events": "events { %s }\n",
    "http": "events { }\nhttp { %s }\n",
    "server": "events { }\nhttp { server { listen 127.0.0.1:@PORT@; %s } }\n",
    "location": "events { }\nhttp { server { listen 127.0.0.1:@PORT@; location / { %s } } }\n",
    "upstream": "events { }\nhttp { upstream u { server 127.0.0.1:81; %s } }\n",
    "stream": "events { }\nstream { %s }\n",
    "stream server": "events { }\nstream { server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:82; %s } }\n",
    "stream upstream": "events { }\nstream { upstream u { server 127.0.0.1:81; %s } }\n",
}


def spellings(word):
    """The values of one word of the syntax."""
    if word in VALUES:
        return VALUES[word]
    if "=" in word:
        name, kind = word.split("=", 1)
        values = [value for part in kind.split("|") for value in spellings(part)[:4]]
        return [f"{name}={value}" for value in values] + [f"{name.upper()}={values[0]}", f"{name}="]
    if re.fullmatch(r"[a-z0-9_.-]+", word):
        return list(dict.fromkeys([word, word.upper(), word.capitalize()]))
    return [word]


def arguments(syntax):
    """Arguments that the syntax shows, each a string."""
    for way in syntax.split(" ¦ "):
        words = way.replace("...", "").split()
        plain = [word for word in words if word != "|"]
        if "|" in words and not any(sign in way for sign in "[{"):
            for word in plain:
                yield from spellings(word)
            yield " ".join(plain[:2])
            continue
        optional = re.findall(r"\[([^][]+)\]", way)
        fixed = re.sub(r"\[.*\]", "", way.replace("...", "")).replace("|", " ").split()
        if len(fixed) > 3:
            continue
        first = [spellings(word) for word in fixed]
        for values in itertools.islice(itertools.product(*first), 60):
            yield " ".join(value if value and " " not in value else f'"{value}"' for value in values)
        base = " ".join(values[0] for values in first)
        for part in optional:
            for value in (value for word in part.split("|") for value in spellings(word.strip())):
                yield f"{base} {value}".strip()
    yield ""


def takes(program, text, folder):
    path = os.path.join(folder, "c.conf")
    with open(path, "w") as file:
        file.write("pid x.pid; " + text.replace("@PORT@", "31999"))
    done = subprocess.run([program, "-t", "-p", folder, "-e", "stderr", "-c", path], capture_output=True, text=True, errors="replace")
    told = next((line for line in done.stderr.split("\n") if "[emerg]" in line or "[crit]" in line), "")
    return done.returncode == 0, re.sub(r"^.*?\[(emerg|crit)\] (\d+#\d+: )?", "", told).replace(f" in {path}", "")


def main():
    nginx, freerun, table = sys.argv[1:4]
    wanted = set(sys.argv[4:])
    asked = 0
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "logs"))
        for line in open(table).read().split("\n")[1:]:
            columns = line.split("\t")
            if len(columns) < 7 or "mail" in columns[1] or (wanted and columns[0] not in wanted):
                continue
            name, module, contexts, syntax = columns[0], columns[1], columns[2], columns[6]
            first = contexts.split(",")[0].split(" ")[0]
            if module.startswith("ngx_stream") and first != "stream":
                first = f"stream {first}"
            if first not in WRAP or "{" in syntax:
                continue
            known = takes(nginx, WRAP[first] % f"{name};", folder)[1]
            if "unknown directive" in known or "requires" in known and "block" in known:
                continue
            for value in dict.fromkeys(arguments(syntax)):
                text = WRAP[first] % f"{name} {value};".replace(" ;", ";")
                theirs, ours = takes(nginx, text, folder), takes(freerun, text, folder)
                asked += 1
                if theirs[0] != ours[0]:
                    verdict = "nginx takes it" if theirs[0] else f"nginx: {theirs[1]}"
                    own = "freerun takes it" if ours[0] else f"freerun: {ours[1]}"
                    print(f"{name} {value}\t{first}\t{verdict}\t{own}", flush=True)
    print(f"{asked} configurations", file=sys.stderr)


main()
