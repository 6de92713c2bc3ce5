"""The backend of tests/tools/browsers: what it has received, it tells."""

import base64
import hashlib
import http.server
import json
import struct
import sys
import threading
import time

# How long a request that nobody answers is held, in seconds.
HELD = 60
# How long the backend waits for others to begin or to leave, in seconds: less than the page waits for a check.
LATE = 20
# How long the page waits for the browser to follow a hint, in seconds.
HINT = 5
# How fast the backend reads a body that is given up: so many bytes, then a pause in seconds.
PIECE, PAUSE = 128 * 1024, 0.01
# The largest message of a WebSocket.
MOST = 64 * 1024 * 1024


class State:
    """What the requests of the backend have in common."""

    def __init__(self):
        self.changed = threading.Condition()
        self.counts = {}
        self.seen = {}
        self.reports = []

    def count(self, group, what):
        with self.changed:
            self.counts[group, what] = self.counts.get((group, what), 0) + 1
            self.changed.notify_all()

    def wait_for(self, condition, seconds=HELD):
        with self.changed:
            return self.changed.wait_for(condition, seconds)


class Server(http.server.ThreadingHTTPServer):
    """A server of which each connection has a thread."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, page):
        self.state, self.page = State(), page
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    """The backend: what it has received, it tells."""

    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, value, kind="application/json"):
        self.send(json.dumps(value).encode(), kind)

    def report(self, **report):
        state = self.server.state
        with state.changed:
            state.reports.append(report)
            state.changed.notify_all()

    def send(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def pieces(self):
        """The body of the request, piece by piece."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            while length := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
        left = int(self.headers.get("Content-Length", "0"))
        while left > 0 and (piece := self.rfile.read(min(left, 65536))):
            left -= len(piece)
            yield piece

    def do_GET(self):
        path, _, query = self.path.partition("?")
        asked = dict(part.partition("=")[::2] for part in query.split("&"))
        name = "on_" + path.rpartition("/")[2]
        getattr(self, name, lambda _: self.send_error(404))(asked)

    do_POST = do_PUT = do_GET

    def on_page(self, asked):
        """The page: it waits for the browser to follow the hint that comes before it."""
        run, state, begun = asked["run"], self.server.state, time.monotonic()
        link = f"</app/hint?run={run}>; rel=preload; as=style"
        self.wfile.write(f"HTTP/1.1 103 Early Hints\r\nLink: {link}\r\n\r\n".encode())
        # Chromium sometimes does not when it has just been started: that is told, and is no fault of the server.
        followed = state.wait_for(lambda: (run, "hinted") in state.counts, HINT)
        detail = "followed" if followed else "not followed"
        milliseconds = int(1000 * (time.monotonic() - begun))
        self.report(run=run, name="early hint", ok=True, detail=detail, milliseconds=milliseconds)
        self.send(self.server.page, "text/html")

    def on_hint(self, asked):
        self.server.state.count(asked["run"], "hinted")
        self.send(b"/* hinted */", "text/css")

    def on_upload(self, _):
        length, digest = 0, hashlib.sha256()
        for piece in self.pieces():
            length += len(piece)
            digest.update(piece)
        self.answer({"length": length, "sha256": digest.hexdigest()})

    def on_beacon(self, asked):
        arrived = sum(len(piece) for piece in self.pieces())
        self.server.state.count(asked["group"], "arrived" if arrived == 50_000 else "damaged")
        self.answer(None)

    def on_form(self, _):
        body = b"".join(self.pieces())
        boundary = b"--" + self.headers["Content-Type"].partition("boundary=")[2].encode()
        part = next(part for part in body.split(boundary) if b'filename="file.bin"' in part)
        file = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        self.answer({"length": len(file), "sha256": hashlib.sha256(file).hexdigest()}, "text/plain")

    def on_headers(self, _):
        self.answer(self.headers.items())

    def on_report(self, _):
        self.report(**json.loads(b"".join(self.pieces())))
        self.answer(None)

    def on_held(self, asked):
        """Answers nothing, and waits until the client leaves."""
        self.close_connection = True
        state, group = self.server.state, asked["group"]
        length = int(self.headers.get("Content-Length", "0"))
        left = length - len(self.rfile.read(min(length, 65536)))
        state.count(group, "begun")
        if length > 0:
            # The server has to wait with the rest of the body until the client has left.
            state.wait_for(lambda: group in state.seen)
        self.connection.settimeout(HELD)
        try:
            while piece := self.rfile.read1(PIECE):
                left -= len(piece)
                # Slowly: it may take the browser a moment to end what the page has given up.
                time.sleep(PAUSE)
        except ConnectionError:
            pass
        state.count(group, "left" if length == 0 or left > 0 else "sent")

    def on_count(self, asked):
        key, number, state = (asked["group"], asked["what"]), int(asked["number"]), self.server.state
        state.wait_for(lambda: state.counts.get(key, 0) >= number, LATE)
        of_group = {what: count for (group, what), count in state.counts.items() if group == key[0]}
        self.answer({"is": of_group.get(key[1], 0), "all": of_group})

    def on_events(self, asked):
        """Events, each of which waits until the page has acknowledged the one before."""
        state, group = self.server.state, asked["group"]
        first = int(self.headers.get("Last-Event-ID", "0")) + 1
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        # Where responses are buffered, this one is not.
        self.send_header("X-Accel-Buffering", "no")
        self.end_headers()
        self.wfile.write(b"retry: 50\n\n")
        # The first connection ends after five, so that the browser begins another one.
        for number in range(first, 6 if first == 1 else 9):
            if not state.wait_for(lambda: state.seen.get(group, 0) >= number - 1):
                return
            self.wfile.write(f"event: step\nid: {number}\ndata: event {number}\n\n".encode())
        if first == 1:
            state.wait_for(lambda: state.seen.get(group, 0) >= 5)

    def on_seen(self, _):
        seen, state = json.loads(b"".join(self.pieces())), self.server.state
        with state.changed:
            state.seen[seen["group"]] = seen["number"]
            state.changed.notify_all()
        self.answer(None)

    # ---- WebSocket (RFC 6455) ----------------------------------------------------------------------------------------

    def on_socket(self, asked):
        self.close_connection = True
        key = self.headers.get("Sec-WebSocket-Key", "")
        if "refuse" in asked or len(base64.b64decode(key)) != 16 or self.headers["Sec-WebSocket-Version"] != "13":
            return self.send_error(403)
        if self.headers["Upgrade"].lower() != "websocket" or "upgrade" not in self.headers["Connection"].lower():
            return self.send_error(426)
        accept = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.send_header("Sec-WebSocket-Protocol", "echo")
        self.end_headers()
        self.converse()
        self.server.state.count(asked["group"], "left")

    def converse(self):
        has_closed = False
        while message := self.message():
            kind, data = message
            if kind == 1 and data.startswith(b"close "):
                self.frame(8, struct.pack("!H", int(data[6:])) + b"as you like")
                has_closed = True
            elif kind == 1 and data == b"drop":
                return
            elif kind == 8:
                if not has_closed:
                    self.frame(8, data[:2])
                return
            elif kind in (1, 2):
                self.frame(kind, data)

    def message(self):
        """The next message, put together of its frames; None at the end of the connection."""
        kind, parts = None, []
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return None
            length = head[1] & 0x7F
            if length >= 126:
                form = "!H" if length == 126 else "!Q"
                length = struct.unpack(form, self.rfile.read(struct.calcsize(form)))[0]
            if not head[1] & 0x80 or length > MOST:
                raise ValueError("a frame without a mask, or too large")
            mask, data = self.rfile.read(4), self.rfile.read(length)
            whole = mask * (length // 4 + 1)
            data = (int.from_bytes(data, "big") ^ int.from_bytes(whole[:length], "big")).to_bytes(length, "big")
            opcode = head[0] & 0x0F
            if opcode == 8:
                return 8, data
            if opcode == 9:
                self.frame(10, data)
                continue
            if opcode == 10:
                continue
            kind = kind or opcode
            parts.append(data)
            if head[0] & 0x80:
                return kind, b"".join(parts)

    def frame(self, kind, data):
        length = len(data)
        if length < 126:
            head = struct.pack("!BB", 0x80 | kind, length)
        elif length < 65536:
            head = struct.pack("!BBH", 0x80 | kind, 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 127, length)
        self.wfile.write(head + data)
