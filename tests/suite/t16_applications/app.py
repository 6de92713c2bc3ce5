"""What the tests ask of a WSGI application; the path says what."""

import os
import time
import zlib
from urllib.parse import parse_qs


def application(environ, start_response):
    do = environ["PATH_INFO"].rpartition("/")[2]
    query = {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}

    def answer(text, status="200 OK", fields=()):
        start_response(status, [("Content-Type", "text/plain"), *fields])
        return [text.encode()]

    if do == "tell":
        names = ["REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_HOST", "HTTP_X_TWICE",
                 "HTTP_COOKIE", "SERVER_PROTOCOL", "REMOTE_ADDR"]
        return answer("".join(f"{name}={environ.get(name, '(none)')}\n" for name in names), fields=[("X-Own", "one")])
    if do == "sum":
        length, sum = 0, 0
        while piece := environ["wsgi.input"].read(65536):
            length, sum = length + len(piece), zlib.crc32(piece, sum)
        return answer(f"{length} {sum}")
    if do == "status":
        return answer("the body of " + query["code"], query["code"] + " Of Choice")
    if do == "redirect":
        return answer("", "302 Found", [("Location", query["to"])])
    if do == "long":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"".join(b"%063d\n" % (block * 1000 + line) for line in range(1000)) for block in range(int(query["lines"]) // 1000))
    if do == "known":
        return answer("known", fields=[("Content-Length", "5")])
    if do == "short":
        return answer("only", fields=[("Content-Length", "100")])
    if do == "events":
        start_response("200 OK", [("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no")])
        return events(query["folder"])
    return answer("what?", "404 Not Found")


def events(folder):
    for n in range(1, 4):
        yield f"data: {n}\n\n".encode()
        # The next one comes when the test has seen this one.
        while not os.path.exists(f"{folder}/seen{n}"):
            time.sleep(0.001)
