#!/usr/bin/env python3
"""Stands in front of a real host and writes down what it is asked, a line each.

    recorder.py LOG http PORT TARGET            HTTP on loopback: METHOD PATH
    recorder.py LOG REAL serve --port PORT      becomes the real OpenCode, with a recorder before it
    recorder.py LOG REAL daemon --config-dir D  becomes the real ZeroClaw, with a recorder on its socket: METHOD PARAMETERS
"""
import ctypes, http.client, json, os, signal, socket, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG, WHAT, REST = sys.argv[1], sys.argv[2], sys.argv[3:]


def note(line):
    with open(LOG, "a") as file:
        file.write(line + "\n")


def web(port, target):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            try:
                connection = http.client.HTTPConnection("127.0.0.1", target, timeout=120)
                connection.request(self.command, self.path, body or None, headers)
                reply = connection.getresponse()
                text = reply.read()
            except OSError:     # not there yet: as if nobody listened
                self.close_connection = True
                return
            note(f"{self.command} {self.path}")
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = any

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    Server(("127.0.0.1", port), Handler).serve_forever()


def lines(path):
    while not os.path.exists(path):
        time.sleep(0.002)
    real = path + ".real"
    os.rename(path, real)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)

    def pump(source, target, record):
        rest = b""
        while data := source.recv(65536):
            target.sendall(data)
            if record:
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    said = json.loads(line)
                    note(f"{said['method']} {json.dumps(said['params'])}")
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def quietly(*arguments):
        try:
            pump(*arguments)
        except OSError:
            pass

    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(real)
        except OSError:
            client.close()
            continue
        threading.Thread(target=quietly, args=(client, server, True), daemon=True).start()
        threading.Thread(target=quietly, args=(server, client, False), daemon=True).start()


def beside(record, *arguments):
    """Runs the recorder in a child that ends with this process, which is to become the host."""
    parent = os.getpid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        record(*arguments)


if WHAT == "http":
    web(*map(int, REST))
elif REST[0] == "serve":
    asked = int(REST[REST.index("--port") + 1])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        behind = free.getsockname()[1]
    beside(web, asked, behind)
    os.execv(WHAT, [WHAT, "serve", "--port", str(behind)])
else:
    beside(lines, os.path.join(REST[REST.index("--config-dir") + 1], "data/daemon.sock"))
    os.execv(WHAT, [WHAT, *REST])
