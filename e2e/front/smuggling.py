#!/usr/bin/env python3
"""Requests that two readers may read differently, through real front proxies in front of the gateway (T15).

    smuggling.py [--allow-missing] MCTUNNEL DIRECTORY PROXY...

    PROXY: direct haproxy nginx envoy traefik, each as NAME or NAME=BINARY. Each has to be there, unless --allow-missing is given; one at
    least besides direct has to run in any case.

Each input of the corpus goes through a proxy to a hub, an agent and a recording target. Whatever the proxy makes of it: every request that
the target saw was answered to the client that sent it, one answer each, and the next client on the proxy's connections gets its own answer.
"""
import json, os, re, shutil, signal, socket, subprocess, sys, threading, time

SERVICE = "/c1/api/v1/namespaces/default/services/http:web:80/proxy-service"


# === the target ===

class Target:
    """Records every request and answers it with its own path."""

    def __init__(self):
        self.seen, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        file = connection.makefile("rb")
        try:
            while request := self.read(file):
                with self.lock:
                    self.seen.append(request)
                body = request[0].split()[1].encode()
                head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
                connection.sendall(head + (b"" if request[0].startswith("HEAD ") else body))
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def read(self, file):
        line = file.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            return None
        fields, body = {}, b""
        while field := file.readline().decode("latin-1").rstrip("\r\n"):
            name, value = field.split(":", 1)
            fields.setdefault(name.lower(), []).append(value.strip())
        if fields.get("transfer-encoding") == ["chunked"]:
            while size := int(file.readline(), 16):
                body += file.read(size)
                file.readline()
            while file.readline().strip():
                pass
        elif "content-length" in fields:
            size = int(fields["content-length"][0])
            body = file.read(size)
            if len(body) < size:
                return None  # broken off: no request
        return line, fields, body

    def since(self, mark):
        with self.lock:
            return self.seen[mark:]

    def mark(self):
        with self.lock:
            return len(self.seen)


# === the corpus ===

def corpus(own="n0", other="n0s"):
    """(name, text) each; `own` is the path of the request, `other` that of one inside or behind it."""
    smuggled = f"GET {SERVICE}/{other} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    chunked_nothing = "0\r\n\r\n"
    chunk = f"{len(smuggled):x}\r\n{smuggled}\r\n0\r\n\r\n"
    post = f"POST {SERVICE}/{own} HTTP/1.1\r\nHost: localhost\r\n"
    get = f"GET {SERVICE}/{own} HTTP/1.1\r\nHost: localhost\r\n"
    length = len(smuggled)
    cases = [
        ("a plain request", get + "\r\n"),
        ("a body with a length", post + f"Content-Length: {length}\r\n\r\n{smuggled}"),
        ("a body in chunks", post + f"Transfer-Encoding: chunked\r\n\r\n{chunk}"),
        ("length then chunked", post + f"Content-Length: {5 + length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked_nothing}{smuggled}"),
        ("chunked then length", post + f"Transfer-Encoding: chunked\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}"),
        ("length 0 and chunks", post + f"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
        ("length 4 and chunks", post + f"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
        ("two lengths, short first", post + f"Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        ("two lengths, long first", post + f"Content-Length: {length}\r\nContent-Length: 0\r\n\r\n{smuggled}"),
        ("two equal lengths", post + f"Content-Length: {length}\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        ("a list of lengths", post + f"Content-Length: 0, {length}\r\n\r\n{smuggled}"),
    ]
    lengths = ["+%d", "-%d", "0x%x", "0%d", " %d ", "%d,", "%d\t", "%d\x0b", "'%d'", "%d.0", "%de0", "\x00%d", "%d;a"]
    cases += [(f"length {form!r}", post + f"Content-Length: {form % length}\r\n\r\n{smuggled}") for form in lengths]
    names = ["Content-Length ", " Content-Length", "Content_Length", "Content-Length\t", "Content-Length\x00", "\x0bContent-Length", "Content-Len\u0131gth"]
    cases += [(f"name {name!r}", post + f"{name}: {length}\r\n\r\n{smuggled}") for name in names]
    codings = ["chunked, identity", "identity, chunked", "xchunked", "chunked ", "\tchunked", "\x0bchunked", "chun\x00ked", '"chunked"',
               "Chunked", "gzip, chunked", "chunked, chunked", "chunked\r\n ,identity", "chunked;a=b", ",chunked", "\x00chunked"]
    cases += [(f"coding {coding!r}", post + f"Transfer-Encoding: {coding}\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}")
              for coding in codings]
    cases += [(f"coding {coding!r} alone", post + f"Transfer-Encoding: {coding}\r\n\r\n{chunked_nothing}{smuggled}") for coding in codings]
    cases += [
        ("coding under another name", post + f"Transfer_Encoding: chunked\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}"),
        ("coding with a space", post + f"Transfer-Encoding : chunked\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}"),
        ("coding on a folded line", post + f"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}"),
        ("coding behind a bare CR", post + f"X: y\rTransfer-Encoding: chunked\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}"),
        ("coding behind a bare LF", post + f"X: y\nTransfer-Encoding: chunked\r\nContent-Length: {5 + length}\r\n\r\n{chunked_nothing}{smuggled}"),
        ("coding named by Connection", post + f"Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
        ("length named by Connection", post + f"Connection: content-length\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        ("HTTP/1.0 and chunks", post.replace("1.1", "1.0") + f"Transfer-Encoding: chunked\r\n\r\n{chunked_nothing}{smuggled}"),
        ("GET with a body", get + f"Content-Length: {length}\r\n\r\n{smuggled}"),
        ("an extension with a quote", post + f"Transfer-Encoding: chunked\r\n\r\n1;e=\"v\r\na\r\n0\r\n\r\n{smuggled}"),
        ("an extension with a bare LF", post + f"Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n{smuggled}"),
        ("a size with a space", post + f"Transfer-Encoding: chunked\r\n\r\n0 \r\n\r\n{smuggled}"),
        ("a size with a prefix", post + f"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{smuggled}"),
        ("a size with a sign", post + f"Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n{smuggled}"),
        ("a size beyond all", post + f"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\na\r\n0\r\n\r\n{smuggled}"),
        ("chunks with bare LF", post + f"Transfer-Encoding: chunked\r\n\r\n0\n\n{smuggled}"),
        ("no end behind a chunk", post + f"Transfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n{smuggled}"),
        ("trailers that lie", post + f"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        ("two hosts", get + "Host: evil\r\n\r\n" + smuggled),
        ("an absolute target", f"GET http://evil{SERVICE}/{own} HTTP/1.1\r\nHost: localhost\r\n\r\n{smuggled}"),
        ("a line end first", "\r\n" + get + "\r\n"),
        ("an upgrade to h2c", get + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + smuggled),
        ("a failed upgrade", get + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" + smuggled),
        ("Expect", post + f"Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n{smuggled}"),
        ("Expect and nothing", post + f"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{smuggled}"),
        ("HEAD with a body", post.replace("POST", "HEAD") + f"Content-Length: {length}\r\n\r\n{smuggled}"),
        ("a space behind the version", get.replace("HTTP/1.1", "HTTP/1.1 ", 1) + "\r\n" + smuggled),
        ("a null in a field", get + "X: a\x00b\r\n\r\n" + smuggled),
    ]
    return cases


# === processes ===

processes = []


def start(command, log):
    # A session of its own, so that its children end with it.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(log, "ab"), stderr=subprocess.STDOUT, start_new_session=True)
    processes.append(process)
    return process


def stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def until(what, ask):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if answer := ask():
                return answer
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise SystemExit(f"waited for {what} in vain")


def start_tunnel(mctunnel, directory, target):
    data, ready = f"{directory}/hub", f"{directory}/hub.ready"
    common = ["--admin-listen", "off", "--log-level", "error"]
    start([mctunnel, "hub", "--data-dir", data, "--tunnel-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0", "--gateway-plain",
           "--insecure-no-auth", "--connect-listen", "off", "--ready-file", ready, *common], f"{directory}/hub.log")
    hub = until("the hub", lambda: json.load(open(ready)))
    bundle = f"{directory}/c1.join"
    subprocess.run([mctunnel, "cluster", "add", "c1", "--data-dir", data, "--hub", hub["tunnel"], "--out", bundle], check=True,
                   stdout=subprocess.DEVNULL)
    start([mctunnel, "agent", "--join", bundle, "--allow-service", "default/web", "--pin-service", f"default/web:80=127.0.0.1:{target.port}",
           "--ready-file", f"{directory}/agent.ready", *common], f"{directory}/agent.log")
    until("the agent", lambda: os.path.exists(f"{directory}/agent.ready"))
    return int(hub["gateway"].rsplit(":", 1)[1])


def haproxy(binary, directory, port, gateway):
    write(f"{directory}/haproxy.cfg", f"""
global
  maxconn 1000
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  option http-keep-alive
frontend in
  bind 127.0.0.1:{port}
  default_backend out
backend out
  http-reuse always
  server gateway 127.0.0.1:{gateway}
""")
    return [binary or shutil.which("haproxy", path=PATH), "-f", f"{directory}/haproxy.cfg"]


def nginx(binary, directory, port, gateway):
    os.makedirs(f"{directory}/nginx", exist_ok=True)
    write(f"{directory}/nginx.conf", f"""
daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/nginx.err;
events {{ worker_connections 512; }}
http {{
  access_log off; underscores_in_headers on; client_body_temp_path {directory}/nginx; proxy_temp_path {directory}/nginx;
  fastcgi_temp_path {directory}/nginx; uwsgi_temp_path {directory}/nginx; scgi_temp_path {directory}/nginx;
  upstream gateway {{ server 127.0.0.1:{gateway}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost;
      proxy_request_buffering off; proxy_read_timeout 5s; }}
  }}
}}
""")
    return [binary or shutil.which("nginx", path=PATH), "-p", directory, "-c", f"{directory}/nginx.conf"]


def envoy(binary, directory, port, gateway):
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": "gateway", "timeout": "5s"}}]}]},
    }
    at = lambda port: {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    write(f"{directory}/envoy.json", json.dumps({"static_resources": {
        "listeners": [{"name": "in", "address": at(port), "filter_chains": [{"filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}]}],
        "clusters": [{"name": "gateway", "connect_timeout": "5s", "type": "STATIC", "load_assignment": {
            "cluster_name": "gateway", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": at(gateway)}}]}]}}]}}))
    return [binary or shutil.which("envoy", path=PATH), "-c", f"{directory}/envoy.json", "--concurrency", "1", "--disable-hot-restart",
            "-l", "error"]


def traefik(binary, directory, port, gateway):
    write(f"{directory}/traefik.yaml", json.dumps({"http": {
        "routers": {"all": {"rule": "PathPrefix(`/`)", "service": "gateway", "entryPoints": ["in"]}},
        "services": {"gateway": {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{gateway}"}]}}}}}))
    return [binary or shutil.which("traefik", path=PATH), f"--entryPoints.in.address=127.0.0.1:{port}",
            f"--providers.file.filename={directory}/traefik.yaml", "--log.level=ERROR", "--global.checkNewVersion=false",
            "--global.sendAnonymousUsage=false"]


PROXIES = {"haproxy": haproxy, "nginx": nginx, "envoy": envoy, "traefik": traefik}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


# === the run ===

def talk(port, data, quiet=0.3):
    """Sends bytes and gives what comes back until the other end hangs up or says nothing for a while."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        try:
            client.sendall(data)
            client.settimeout(2)
            while part := client.recv(65536):
                answer += part
                client.settimeout(quiet)
        except OSError:
            pass
    return answer


def paths(answer):
    """The paths that the target's answers name; each of its answers has its own as the body."""
    return re.findall(rb"/(n\d+[st]?)(?=HTTP/1|\r\n|$)", answer)


def run(name, port, target):
    problems, accepted = [], 0
    count = len(corpus())
    for number in range(count):
        mark, own, other = target.mark(), f"n{number}", f"n{number}s"
        what, text = corpus(own, other)[number]
        data = text.encode("utf-8")
        answer = talk(port, data)
        sentinel = f"n{number}t"
        after = talk(port, f"GET {SERVICE}/{sentinel} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        seen = [line.split()[1].rsplit("/", 1)[1] for line, _, _ in target.since(mark)]
        answered = [path.decode() for path in paths(answer.partition(b"\r\n\r\n")[2])]
        accepted += own in seen
        if paths(after.partition(b"\r\n\r\n")[2]) != [sentinel.encode()] or seen.count(sentinel) != 1:
            problems.append(f"{what}: the next client got {after[:300]!r}, the target saw {seen}")
        if seen.count(own) > 1 or seen.count(other) > 1:
            problems.append(f"{what}: the target saw {seen}")
        # A second request is one only if its answer came back: then the proxy had told it apart, too.
        if other in seen and other not in answered:
            problems.append(f"{what}: smuggled; the target saw {seen}, the client got {answer[:300]!r}")
        if own in seen and own not in answered and b" 200 " in answer.partition(b"\r\n")[0] and not data.startswith(b"HEAD "):
            problems.append(f"{what}: an answer was lost; the target saw {seen}, the client got {answer[:300]!r}")
    print(f"T15 {name}: {count} inputs, {accepted} reached the target, {len(problems)} problems", flush=True)
    return [f"{name}: {problem}" for problem in problems]


def main():
    arguments = sys.argv[1:]
    allow_missing = "--allow-missing" in arguments
    mctunnel, directory, *wanted = [one for one in arguments if one != "--allow-missing"]
    os.makedirs(directory, exist_ok=True)
    target, problems, ran, missing = Target(), [], [], []
    try:
        gateway = start_tunnel(mctunnel, directory, target)
        for name, _, binary in (one.partition("=") for one in wanted):
            port = gateway
            if name != "direct":
                port = free_port()
                command = PROXIES[name](binary, directory, port, gateway)
                if command[0] is None:
                    print(f"{name}: NOT RUN, it is not installed", flush=True)
                    missing.append(name)
                    continue
                proxy = start(command, f"{directory}/{name}.log")
                request = f"GET {SERVICE}/up HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                until(f"{name} (see {directory}/{name}.log)", lambda: b" 200 " in talk(port, request))
            problems += run(name, port, target)
            ran.append(name)
            if name != "direct":
                stop(proxy)
    finally:
        for process in processes:
            stop(process)
    for problem in problems:
        print(f"FAIL {problem}")
    if problems:
        raise SystemExit("FAILED")
    if missing and not allow_missing:
        raise SystemExit(f"FAILED: {', '.join(missing)} did not run; --allow-missing goes on without")
    if not set(ran) - {"direct"}:
        raise SystemExit("no proxy was there to run")
    print(f"PASS each accepted input was one request, behind {', '.join(ran)}")


main()
