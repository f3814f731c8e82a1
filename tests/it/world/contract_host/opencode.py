#!/usr/bin/env python3
"""An OpenCode 2.0.x as its contract has it: a real HTTP server that spawns real shells.

Shares no code with the program under test. What an answer looks like comes from the 2.0 preview (next-16350), recorded
in preview.json beside this file; the session environment from the contract of 2.0.x. One fault a claim, `--fault O3`;
and ways to be no good host at all, `--fault hang`.

    opencode.py [--fault NAME]… serve --port PORT
"""
import base64, json, os, pty, secrets, signal, sqlite3, subprocess, sys, threading, time, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "2.0.24"
FAULTS = {sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--fault"}
FROZEN = dict(os.environ)
DATA = os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "opencode")
CONFIG = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "opencode")
PASSWORD = secrets.token_urlsafe(24)
OVERLAY = {"TERM": "xterm-256color", "OPENCODE_TERMINAL": "1"}

environments = {}       # session id → variables: the whole of what 2.0.x keeps, in memory
last_upload = None
lock = threading.RLock()
requests_seen = 0


def ident(prefix):
    return prefix + secrets.token_hex(13)


# -- files: a database, a log, the output of commands

for directory in ("log", "shell/global"):
    os.makedirs(os.path.join(DATA, directory), exist_ok=True)
db = sqlite3.connect(os.path.join(DATA, "opencode.db"), check_same_thread=False)
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS session_v2(id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, time_created INTEGER)")
db.execute("CREATE TABLE IF NOT EXISTS session_message(id TEXT PRIMARY KEY, session_id TEXT, type TEXT, data TEXT)")
db.execute("CREATE TABLE IF NOT EXISTS project(id TEXT PRIMARY KEY, directory TEXT)")
db.execute("CREATE TABLE IF NOT EXISTS kv(key TEXT PRIMARY KEY, value TEXT)")
if "O12" in FAULTS:     # what the last run kept
    for (value,) in db.execute("SELECT value FROM kv WHERE key='environments'"):
        environments.update(json.loads(value))


def log(message):
    with open(os.path.join(DATA, "log/opencode.log"), "a") as file:
        file.write(f"timestamp={time.time():.3f} level=INFO message={json.dumps(message)} role=server\n")


def stop(*_):
    if "O12" in FAULTS:
        db.execute("INSERT OR REPLACE INTO kv VALUES('environments', ?)", (json.dumps(environments),))
        db.commit()
    os._exit(0)


def session_row(session):
    with lock:
        return db.execute("SELECT id, parent_id, directory, time_created FROM session_v2 WHERE id=?", (session,)).fetchone()


def session_json(row):
    at = {"created": row[3], "updated": row[3]}
    body = {"id": row[0], "projectID": "global", "cost": 0, "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "time": at, "title": "New session", "location": {"directory": row[2]}, "subpath": row[2].lstrip("/")}
    if row[1]:
        body["parentID"] = row[1]
    return body


def new_session(directory, parent=None, name=None):
    row = (name or ident("ses_"), parent, directory, int(time.time() * 1000))
    with lock:
        db.execute("INSERT INTO session_v2 VALUES(?,?,?,?)", row)
        db.execute("INSERT OR IGNORE INTO project VALUES('global', ?)", (directory,))
        db.commit()
    return row


# -- the heart: which environment a shell gets

def environment(session=None, requester=None, header=None):
    with lock:
        mine = environments.get(session) if session else None
        if "O8" in FAULTS and session and last_upload is not None:
            mine = last_upload
    if "O3" in FAULTS:
        mine = None
    if "O6" in FAULTS and mine == {}:
        mine = None
    base = dict(FROZEN)
    if "O2" in FAULTS and requester:
        base = requester
    env = mine if mine is not None else base
    if "O4" in FAULTS and mine is not None:
        env = {**base, **mine}
    env = dict(env)
    if "O13" in FAULTS and header:
        env.update(header)
    overlay = dict(OVERLAY)
    if "O7" in FAULTS and mine and "TERM" in mine:
        del overlay["TERM"]
    env.update(overlay)
    if "plugin-skips-tool" in FAULTS or "plugin" in FAULTS:
        env["CANARY_OVERLAY"] = "from-a-plugin"
    return env


def requester_environment(address):
    """The environment of the process at the other end of a loopback connection."""
    port = f":{address[1]:04X}"
    inode = None
    for line in open("/proc/net/tcp").readlines()[1:]:
        field = line.split()
        if field[1].endswith(port) and field[9] != "0":
            inode = field[9]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                    block = open(f"/proc/{pid}/environ", "rb").read().decode("utf-8", "replace")
                    return dict(entry.split("=", 1) for entry in block.split("\0") if "=" in entry)
        except OSError:
            pass
    return None


class Orphan:
    """What there is of a command that is nobody's child: whether it is done."""
    pid = 0

    def __init__(self, done):
        self.done = done

    def wait(self):
        os.read(self.done, 1)
        os.close(self.done)
        return 0

    def poll(self):
        return 0


def spawn(command, env, cwd, output):
    if "no-helper" in FAULTS and " readback call " in command:     # a sandbox in which foreign programs do not run
        command = "exit 126"
    argv = ["/usr/bin/bash", "-c", command]
    if "O1" in FAULTS:  # somebody else's child: its parent is an orphan
        done, alive = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                subprocess.run(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            os._exit(0)
        os.wait()
        os.close(alive)
        return Orphan(done)
    return subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


shells = {}
ptys = {}


def run_shell(command, env, cwd, session=None, wait=True):
    shell = ident("sh_")
    path = os.path.join(DATA, "shell/global", shell + ".out")
    output = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    process = spawn(command, env, cwd, output)
    os.close(output)
    shells[shell] = (process, path, command, cwd)
    if wait:
        code = process.wait()
        text = open(path, errors="replace").read()
        data = {"shellID": shell, "command": command, "status": "exited", "exit": code,
                "output": {"output": text, "cursor": len(text), "size": len(text), "truncated": False}}
        if session:
            with lock:
                db.execute("INSERT INTO session_message VALUES(?,?,?,?)", (ident("msg_"), session, "shell", json.dumps(data)))
                db.commit()
        return shell, text
    return shell, None


# -- the model's turn

def model_turn(session, text, directory):
    config = json.load(open(os.path.join(CONFIG, "opencode.json")))
    url = config["provider"]["stub"]["options"]["baseURL"] + "/chat/completions"
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "shell", "write")]
    messages = [{"role": "system", "content": "you are"}, {"role": "user", "content": text}]
    for _ in range(4):
        body = json.dumps({"model": "stub", "messages": messages, "tools": tools, "stream": False}).encode()
        asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(asked, timeout=30))["choices"][0]["message"]
        messages.append(answer)
        calls = answer.get("tool_calls") or []
        if not calls:
            return
        for call in calls:
            env = environment(session)
            env.update({"AGENT": "1", "OPENCODE": "1", "AI_AGENT": "opencode", "OPENCODE_SESSION_ID": session})
            if "plugin-skips-tool" in FAULTS:
                env.pop("CANARY_OVERLAY", None)
            _, output = run_shell(json.loads(call["function"]["arguments"])["command"], env, directory, session)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, kind="application/json"):
        text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if text:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def not_found(self, session):
        self.reply(404, {"_tag": "SessionNotFoundError", "sessionID": session, "message": f"Session not found: {session}"})

    def invalid(self, message):
        self.reply(400, {"_tag": "InvalidRequestError", "message": message, "kind": "Payload"})

    def misbehave(self, path):
        """Ways to be no good host, from the second request on, so that it can be found first."""
        global requests_seen
        requests_seen += 1
        if requests_seen <= (0 if "at-once" in FAULTS else 6):
            return False
        if "garbage" in FAULTS:
            self.wfile.write(b"\x00\xff\x13garbage\r\n\r\n" * 20)
        elif "error" in FAULTS:
            self.reply(500, {"_tag": "UnknownError", "message": "it broke"})
        elif "half" in FAULTS:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{\"data\":")
        elif "huge" in FAULTS:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(1 << 30))
            self.end_headers()
            try:
                for _ in range(1 << 10):
                    self.wfile.write(b"x" * (1 << 20))
            except OSError:
                pass
        elif "html" in FAULTS:
            self.reply(200, b"<!doctype html><html><body>app</body></html>", "text/html")
        elif "hang" in FAULTS:
            time.sleep(3600)
        elif "die" in FAULTS:
            os._exit(9)
        else:
            return False
        self.close_connection = True
        return True

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        wanted = "Basic " + base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != wanted:
            return self.reply(401, {"_tag": "UnauthorizedError"})
        if self.misbehave(url.path):
            return None
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            return self.invalid("no JSON")
        log(f"{self.command} {url.path}")
        if "--test" in sys.argv:    # what was asked, for a test to read
            with open(os.path.join(sys.argv[sys.argv.index("--test") + 1], "asked"), "a") as file:
                file.write(f"{self.command} {self.path} {json.dumps(body)}\n")
        method = self.command
        directory = (query.get("location[directory]") or [os.getcwd()])[0]
        if (method, url.path) == ("GET", "/api/info"):
            return self.reply(200, {"version": VERSION, "pid": os.getpid(), "urls": [f"http://127.0.0.1:{PORT}"], "paths": {"tmp": "/tmp"}})
        if parts[:2] == ["api", "session"]:
            return self.session(method, parts[2:], body, raw)
        if parts[:2] == ["api", "shell"]:
            return self.shell(method, parts[2:], body, directory)
        if parts[:2] == ["api", "pty"]:
            return self.pty(method, parts[2:], body, directory)
        return self.reply(404)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def session(self, method, parts, body, raw):
        global last_upload
        if not parts:
            if method == "GET":
                rows = db.execute("SELECT id, parent_id, directory, time_created FROM session_v2 ORDER BY time_created DESC LIMIT 50").fetchall()
                return self.reply(200, {"data": [session_json(row) for row in rows], "cursor": {}})
            parent = body.get("parentID")
            row = new_session((body.get("location") or {}).get("directory") or os.getcwd(), parent, body.get("id"))
            if "O9" in FAULTS and parent in environments:
                environments[row[0]] = environments[parent]
            return self.reply(200, {"data": session_json(row)})
        session, action = parts[0], "/".join(parts[1:])
        row = session_row(session)
        if (method, action) == ("PUT", "environment"):
            if "upload-breaks" in FAULTS:
                return self.reply(500, {"_tag": "UnknownError", "message": "it broke"})
            variables = body.get("variables")
            sound = isinstance(variables, dict) and all(isinstance(value, str) for value in variables.values())
            if "internal" in FAULTS and (row is None or not sound):
                return self.reply(500, {"_tag": "UnknownError", "message": "no space left on device"})
            if row is None:
                return self.reply(204) if "O14" in FAULTS else self.not_found(session)
            if not sound:
                return self.invalid("Expected string")
            with lock:
                before = environments.get(session) or {}
                environments[session] = {**before, **variables} if "O5" in FAULTS else variables
                last_upload = variables
            if "O11" in FAULTS:
                log("body " + raw.decode())
            return self.reply(204)
        if row is None:
            return self.not_found(session)
        if (method, action) == ("GET", ""):
            return self.reply(200, {"data": session_json(row)})
        if (method, action) == ("DELETE", ""):
            with lock:
                db.execute("DELETE FROM session_v2 WHERE id=? OR parent_id=?", (session, session))
                db.execute("DELETE FROM session_message WHERE session_id=?", (session,))
                db.commit()
                environments.pop(session, None)
            return self.reply(204)
        if (method, action) == ("GET", "message"):
            rows = db.execute("SELECT id, type, data FROM session_message WHERE session_id=?", (session,)).fetchall()
            return self.reply(200, {"data": [{"id": r[0], "type": r[1], "time": {}, **json.loads(r[2])} for r in rows], "cursor": {}})
        if (method, action) == ("POST", "fork"):
            if "internal" in FAULTS:
                return self.reply(500, {"_tag": "UnknownError", "message": "no space left on device"})
            fork = new_session(row[2])
            if "O9" in FAULTS and session in environments:
                environments[fork[0]] = environments[session]
            return self.reply(200, {"data": {**session_json(fork), "fork": {"sessionID": session}}})
        if (method, action) == ("POST", "shell"):
            if not isinstance(body.get("command"), str):
                return self.invalid('Expected string\n  at ["command"]')
            header = self.headers.get("x-opencode-environment")
            requester = requester_environment(self.client_address) if "O2" in FAULTS else None
            env = environment(session, requester, json.loads(header) if header else None)
            run_shell(body["command"], env, row[2], session)
            return self.reply(204)
        if (method, action) == ("POST", "prompt"):
            threading.Thread(target=model_turn, args=(session, body["text"], row[2]), daemon=True).start()
            return self.reply(200, {"data": {"admittedSeq": 1, "id": ident("msg_"), "sessionID": session, "timeCreated": int(time.time() * 1000),
                                             "type": "user", "data": {"text": body["text"]}, "delivery": "steer"}})
        return self.reply(404)

    def shell(self, method, parts, body, directory):
        where = {"directory": directory, "project": {"id": "global", "directory": "/"}}
        if method == "POST" and not parts:
            if "timeout" not in body:
                return self.invalid('Missing key\n  at ["timeout"]')
            session = (body.get("metadata") or {}).get("sessionID")
            requester = requester_environment(self.client_address) if "O2" in FAULTS else None
            env = environment(session, requester)
            shell, _ = run_shell(body["command"], env, body.get("cwd") or directory, wait=False)
            process, path, command, cwd = shells[shell]
            return self.reply(200, {"location": where, "data": {"id": shell, "status": "running", "command": command, "cwd": cwd, "shell": "/usr/bin/bash",
                                    "file": path, "pid": process.pid, "metadata": body.get("metadata") or {},
                                    "time": {"started": int(time.time() * 1000)}}})
        if method == "GET" and not parts:
            return self.reply(200, {"location": where, "data": [{"id": name, "command": known[2]} for name, known in shells.items()]})
        known = shells.get(parts[0]) if parts else None
        if known is None:
            return self.reply(404, {"_tag": "ShellNotFoundError", "id": parts[0] if parts else "", "message": "Shell not found"})
        if method == "DELETE":
            process, path, *_ = shells.pop(parts[0])
            if process.poll() is None:
                process.kill()
            os.path.exists(path) and os.unlink(path)
            return self.reply(204)
        return self.reply(200, {"location": where, "data": {"id": parts[0]}})

    def pty(self, method, parts, body, directory):
        if method == "GET" and not parts:
            where = {"directory": directory, "project": {"id": "global", "directory": "/"}}
            return self.reply(200, {"location": where, "data": [{"id": name, "title": title} for name, (_, title) in ptys.items()]})
        if method == "POST" and not parts:
            env = dict(FROZEN)
            if "O10" in FAULTS and last_upload is not None:
                env = dict(last_upload)
            if "O2" in FAULTS:
                env = requester_environment(self.client_address) or env
            env.update(body.get("env") or {})
            env.update(OVERLAY)
            argv = [body.get("command") or "/bin/bash"] + (body.get("args") or [])
            leader, follower = pty.openpty()
            process = subprocess.Popen(argv, env=env, cwd=body.get("cwd") or directory, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
            os.close(follower)

            def drain():
                try:
                    while os.read(leader, 4096):
                        pass
                except OSError:
                    pass
                process.wait()
                os.close(leader)
            threading.Thread(target=drain, daemon=True).start()
            where = {"directory": directory, "project": {"id": "global", "directory": "/"}}
            name = ident("pty_")
            ptys[name] = (process, body.get("title"))
            return self.reply(200, {"location": where, "data": {"id": name, "title": "Terminal", "command": argv[0], "args": argv[1:],
                                    "cwd": directory, "status": "running", "pid": process.pid}})
        if method == "DELETE" and parts[0] in ptys:
            process, _ = ptys.pop(parts[0])
            if process.poll() is None:
                process.kill()
            return self.reply(204)
        return self.reply(404, {"_tag": "PtyNotFoundError", "message": "PTY not found"})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    PORT = int(sys.argv[sys.argv.index("--port") + 1])
    log("cli starting")
    print(f"server listening on http://127.0.0.1:{PORT}\nserver password {PASSWORD}", flush=True)
    Server(("127.0.0.1", PORT), Handler).serve_forever()
