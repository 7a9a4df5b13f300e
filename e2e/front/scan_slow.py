#!/usr/bin/env python3
"""Clients that are slow, and clients that are many (T40): what the hub keeps for them, and what the others notice.

    scan_slow.py MCTUNNEL DIRECTORY [PATTERN]     the checks whose name matches; `scan slow` calls it
    scan_slow.py target PORT-FILE STARTED-FILE    what stands behind the agent

The limits are the defaults: 10 s for TLS and again for the head of a request, 2 minutes between requests, 3 s for the first message to the
agents' port, of whose 4,096 places to wait in one address has half. There is no limit of time for a body, nor for who reads an answer
slowly: those may hold their own request, and nothing of others.
"""
import asyncio, json, os, re, resource, selectors, signal, socket, ssl, statistics, subprocess, sys, threading, time, urllib.request

SERVICE = "/c1/api/v1/namespaces/default/services/http:web:80/proxy-service"
HEAD, IDLE, SLACK = 10, 120, 4  # seconds; a scheduler that is busy is late
MANY, SLOW, UNKNOWN = 15_000, 300, 100_000
RSS_BOUND = 64  # MiB
BIG, PART = 8 << 20, b"x" * 65536  # bytes of an answer for slow readers, and how they are written


# === the target ===

async def answer(reader, writer, started):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            if length:
                started(head)
                await reader.readexactly(int(length[1]))
            big = head.split(" ")[1].endswith("/big")
            body, times = (PART, BIG // len(PART)) if big else (b"hello", 1)
            if big:
                started(head)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(body) * times))
            for _ in range(times):
                writer.write(body)
                await writer.drain()
    except (OSError, EOFError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def target(port_file, started_file):
    """Answers a few bytes, or many at /big; writes down each request with a body and each big one, when it begins."""
    with open(started_file, "w", buffering=1) as log:
        server = await asyncio.start_server(lambda r, w: answer(r, w, lambda head: log.write(head.split("\r\n", 1)[0] + "\n")), "127.0.0.1", 0)
        write(port_file, str(server.sockets[0].getsockname()[1]))
        await server.serve_forever()


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


# === processes ===

processes = []


def start(command, log):
    # A session of its own, so that its children end with it.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(log, "ab"), stderr=subprocess.STDOUT, start_new_session=True)
    processes.append(process)
    return process


def stop(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until(what, ask):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if answer := ask():
                return answer
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise Wrong(f"waited for {what} in vain")


# === hub, agent, target ===

class Hub:
    """A hub with an agent and a target."""

    def __init__(self, mctunnel, directory, tls=False, descriptors=None):
        self.mctunnel, self.directory, self.tls = mctunnel, directory, tls
        os.makedirs(directory)
        ready, port = f"{directory}/hub.ready", f"{directory}/port"
        command = [mctunnel, "hub", "--data-dir", f"{directory}/hub", "--tunnel-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0",
                   "--connect-listen", "127.0.0.1:0", "--connect-tls-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                   "--insecure-no-auth", "--log-level", "warn", "--log-format", "json", "--ready-file", ready]
        command += [] if tls else ["--gateway-plain"]
        if descriptors:
            command = ["prlimit", f"--nofile={descriptors}:{descriptors}", *command]
        start([sys.executable, __file__, "target", port, f"{directory}/started"], f"{directory}/target.log")
        start(command, f"{directory}/hub.log")
        self.ready = until("the hub", lambda: json.load(open(ready)))
        self.pid, self.port = self.ready["pid"], until("the target", lambda: open(port).read())
        self.agent("c1")
        self.ask()
        self.fresh = self.resident()

    def agent(self, cluster):
        """Starts an agent; gives how long it took to get in."""
        bundle, ready = f"{self.directory}/{cluster}.join", f"{self.directory}/{cluster}.ready"
        subprocess.run([self.mctunnel, "cluster", "add", cluster, "--data-dir", f"{self.directory}/hub", "--hub", self.ready["tunnel"], "--out", bundle],
                       check=True, stdout=subprocess.DEVNULL)
        begin = time.monotonic()
        process = start([self.mctunnel, "agent", "--join", bundle, "--allow-service", "default/web", "--pin-service", f"default/web:80=127.0.0.1:{self.port}",
                         "--admin-listen", "off", "--log-level", "error", "--ready-file", ready], f"{self.directory}/{cluster}.log")
        until(f"agent {cluster}", lambda: os.path.exists(ready))
        return process, time.monotonic() - begin

    def address(self, listener):
        host, port = self.ready[listener].rsplit(":", 1)
        return host, int(port)

    def connect(self, listener="gateway", source=None, limit=5):
        return socket.create_connection(self.address(listener), timeout=limit, source_address=(source, 0) if source else None)

    def url(self, path="/small"):
        host, port = self.address("gateway")
        return f"http{'s' if self.tls else ''}://{host}:{port}{SERVICE}{path}"

    def ask(self, limit=5):
        """One request on a connection of its own; gives the seconds it took."""
        begin = time.monotonic()
        with self.connect(limit=limit) as client:
            if self.tls:
                client = ANY_CERTIFICATE.wrap_socket(client)
            client.sendall(f"GET {SERVICE}/small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            got = b""
            while part := client.recv(4096):
                got += part
        if not got.startswith(b"HTTP/1.1 200 ") or not got.endswith(b"hello"):
            raise Wrong(f"a request was answered {got[:200]!r}")
        return time.monotonic() - begin

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident(self):
        """In MiB."""
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{self.pid}/status").read())[1]) / 1024

    def metrics(self):
        page = urllib.request.urlopen(f"http://{self.ready['admin']}/metrics", timeout=10).read().decode()
        lines = [line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def started(self):
        return open(f"{self.directory}/started").read().splitlines()

    def log(self):
        return open(f"{self.directory}/hub.log").read()


ANY_CERTIFICATE = ssl.create_default_context()
ANY_CERTIFICATE.check_hostname = False
ANY_CERTIFICATE.verify_mode = ssl.CERT_NONE


class Wrong(Exception):
    pass


def wanted(condition, text):
    if not condition:
        raise Wrong(text)


def eventually(limit, what, ask):
    deadline = time.monotonic() + limit
    while not ask():
        wanted(time.monotonic() < deadline, f"{what}: not within {limit} s")
        time.sleep(0.1)


# === who looks on ===

class Others:
    """Somebody else, who sends a request every 100 ms on a connection of its own, and looks how large the hub is."""

    def __init__(self, hub):
        self.hub, self.took, self.failed, self.most, self.most_descriptors = hub, [], [], 0, 0

    def __enter__(self):
        self.begin_rss, self.begin_descriptors = self.hub.resident(), self.hub.descriptors()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def run(self):
        while not self.over.wait(0.1):
            try:
                self.took.append(self.hub.ask())
            except (OSError, Wrong) as error:
                self.failed.append(f"{type(error).__name__}: {error}")
            if len(self.took) % 5 == 0:
                self.look()

    def look(self):
        self.most, self.most_descriptors = max(self.most, self.hub.resident()), max(self.most_descriptors, self.hub.descriptors())

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.look()

    def p99(self):
        return statistics.quantiles(self.took, n=100, method="inclusive")[98] * 1000

    def all_served(self, at_least):
        wanted(not self.failed, f"{len(self.failed)} of {len(self.failed) + len(self.took)} requests of others failed, first: {self.failed[:1]}")
        wanted(len(self.took) >= at_least, f"only {len(self.took)} requests of others")

    def back(self, limit=20):
        eventually(limit, f"descriptors back from {self.most_descriptors} to {self.begin_descriptors}",
                   lambda: self.hub.descriptors() <= self.begin_descriptors + 5)

    def grown(self):
        return self.most - self.begin_rss

    def note(self):
        return (f"{len(self.took)} requests of others, p99 {self.p99():.0f} ms, quiet {baseline(self.hub):.0f} ms; "
                f"{self.grown():+.0f} MiB from {self.begin_rss:.0f}; {self.most_descriptors} descriptors, then {self.hub.descriptors()}")

    def small(self, bound=RSS_BOUND):
        wanted(self.grown() <= bound, f"the hub grew by {self.grown():.0f} MiB from {self.begin_rss:.0f}")


baselines = {}


def baseline(hub):
    """p99 when nothing else is asked, in ms; before anything was done to this hub, if it is called in time."""
    if hub not in baselines:
        with Others(hub) as others:
            eventually(60, "100 requests", lambda: len(others.took) + len(others.failed) >= 100)
        others.all_served(100)
        baselines[hub] = others.p99()
    return baselines[hub]


# === slowhttptest ===

class SlowHttpTest:
    """A run of it: what it says of how it ended, and what it saw each second."""

    def __init__(self, directory, name, url, *options):
        prefix = f"{directory}/{name}"
        command = ["slowhttptest", *options, "-c", str(SLOW), "-r", "200", "-p", "3", "-g", "-o", prefix, "-u", url]
        self.command = " ".join(command)
        start(command, f"{prefix}.out").wait(timeout=120)
        said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", open(f"{prefix}.out", errors="replace").read())
        self.status = (re.findall(r"Exit status: *(.*)", said) or ["none"])[-1].strip()
        self.lasted = int((re.findall(r"Test ended on (\d+)", said) or ["-1"])[-1])
        rows = [line.split(",") for line in open(f"{prefix}.csv").read().splitlines()[1:] if line[:1].isdigit()]
        self.most = max((int(row[3]) for row in rows), default=0)
        self.last = int(rows[-1][3]) if rows else 0

    def __str__(self):
        return f"slowhttptest: {self.most} connected, '{self.status}' after {self.lasted} s"


def slowloris(hub, name, url):
    baseline(hub)
    with Others(hub) as others:
        run = SlowHttpTest(hub.directory, name, url, "-H", "-i", "3", "-x", "24", "-l", "45")
        others.back()
    wanted(run.most == SLOW, f"{run}; {run.command}")
    wanted(run.status == "No open connections left", f"not all were closed: {run}")
    wanted(HEAD - 2 <= run.lasted <= HEAD + SLACK, f"{run}")
    others.all_served(50)
    others.small()
    return f"{run}; {others.note()}"


def slow_heads(hubs):
    hub = hubs.plain()
    return slowloris(hub, "loris", hub.url())


def slow_heads_tls(hubs):
    hub = hubs.tls()
    return slowloris(hub, "loris-tls", hub.url())


def slow_heads_connect(hubs):
    hub = hubs.plain()
    host, port = hub.address("connect")
    return slowloris(hub, "loris-connect", f"http://{host}:{port}/")


def slow_bodies(hubs):
    hub = hubs.plain()
    baseline(hub)
    before = len(hub.started())
    with Others(hub) as others:
        run = SlowHttpTest(hub.directory, "body", hub.url("/body"), "-B", "-i", "5", "-x", "10", "-s", "8192", "-l", "35")
        others.back()
    begun = len([line for line in hub.started()[before:] if line.startswith("POST ")])
    wanted(run.most == SLOW, f"{run}; {run.command}")
    wanted(begun >= SLOW, f"only {begun} bodies began at the target")
    others.all_served(200)
    others.small()
    return f"{run}, {run.last} open to the end; {others.note()}"


def slow_reads(hubs):
    hub = hubs.plain()
    baseline(hub)
    before = len(hub.started())
    with Others(hub) as others:
        run = SlowHttpTest(hub.directory, "read", hub.url("/big"), "-X", "-w", "256", "-y", "512", "-n", "2", "-z", "16", "-l", "35")
        others.back()
    begun = len([line for line in hub.started()[before:] if "/big " in line])
    wanted(run.most == SLOW, f"{run}; {run.command}")
    wanted(begun >= SLOW, f"only {begun} answers began at the target")
    others.all_served(200)
    # What is documented: 1 MiB for each stream that nobody reads.
    others.small(SLOW)
    return f"{run}, {run.last} open to the end; {others.note()}; {given_back(others)}"


# === TLS that stalls ===

def client_hello(protocol):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols([protocol])
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


def until_hung_up(clients, limit):
    """{socket: begin} -> {socket: seconds until the other end hung up}, for those that were hung up on within the limit."""
    deadline, lived = time.monotonic() + limit, {}
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        while len(lived) < len(clients) and time.monotonic() < deadline:
            for key, _ in selector.select(1):
                try:
                    over = not key.fileobj.recv(65536)
                except OSError:
                    over = True
                if over:
                    lived[key.fileobj] = time.monotonic() - clients[key.fileobj]
                    selector.unregister(key.fileobj)
    return lived


def tls_stalls(hubs):
    hub = hubs.tls()
    baseline(hub)
    notes = []
    with Others(hub) as others:
        clients, names = {}, {}
        for listener in ["gateway", "connect_tls", "tunnel"]:
            hello = client_hello("http/1.1" if listener == "connect_tls" else "h2")
            for kind, words in [("nothing", b""), ("half a ClientHello", hello[:len(hello) // 2]), ("a ClientHello", hello)]:
                for _ in range(20):
                    client = hub.connect(listener)
                    client.sendall(words)
                    clients[client], names[client] = time.monotonic(), (listener, kind)
        lived = until_hung_up(clients, HEAD + SLACK)
        for name in sorted(set(names.values())):
            times = [lived.get(client) for client in clients if names[client] == name]
            wanted(None not in times, f"{name}: {times.count(None)} of {len(times)} are still open after {HEAD + SLACK} s")
            notes.append(f"{name[0]}, {name[1]}: {min(times):.1f} to {max(times):.1f} s")
        wanted(min(lived[client] for client in clients if names[client][0] != "tunnel") > HEAD - 1, f"cut before the limit: {notes}")
        for client in clients:
            client.close()
        others.back()
    others.all_served(50)
    others.small()
    return f"{'; '.join(notes)}; {others.note()}"


# === very many clients ===

def raise_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted(hard >= MANY + 1000, f"`ulimit -Hn` is {hard}; {MANY + 1000} are wanted")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


REQUEST = b"GET /nowhere/x HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect_many(hub, count, words):
    """Connections from fifteen addresses; gives them with the time at which each was made."""
    clients = {}
    for number in range(count):
        clients[hub.connect(source=f"127.0.0.{2 + number % 15}", limit=30)] = time.monotonic()
        if number % 500 == 499:
            last = list(clients)[-500:]
            for client in last:
                client.sendall(words)
            for client in last if words else []:
                wanted(client.recv(4096).startswith(b"HTTP/1.1 404 "), "not answered")
    return clients


def many_idle(hubs):
    raise_limit()
    hub = hubs.plain()
    baseline(hub)
    begin = time.monotonic()
    with Others(hub) as others:
        clients = connect_many(hub, MANY, REQUEST)
        took = time.monotonic() - begin
        open_now = hub.descriptors()
        wanted(open_now >= MANY, f"only {open_now} descriptors at the hub")
        served = len(others.took)
        eventually(20, "requests beside them", lambda: len(others.took) + len(others.failed) >= served + 50)
        peak = hub.resident()
        for client in clients:
            client.close()
        others.back(30)
    others.all_served(50)
    each = (peak - others.begin_rss) * 1024 / MANY
    return f"{open_now} descriptors after {took:.0f} s, {each:.1f} KiB each; {others.note()}; {given_back(others)}"


def many_silent(hubs):
    raise_limit()
    hub = hubs.plain()
    baseline(hub)
    with Others(hub) as others:
        clients = connect_many(hub, MANY, b"")
        lived = until_hung_up(clients, HEAD + SLACK)
        for client in clients:
            client.close()
        wanted(len(lived) == MANY, f"{MANY - len(lived)} are still open")
        slowest = max(lived.values())
        wanted(slowest <= HEAD + SLACK, f"one was open for {slowest:.0f} s")
        others.back(30)
    others.all_served(50)
    return f"hung up on after {min(lived.values()):.1f} to {slowest:.1f} s; {others.note()}; {given_back(others)}"


def given_back(others):
    """The allocator gives pages back after a while."""
    begin, hub = time.monotonic(), others.hub
    eventually(60, f"memory back to near {hub.fresh:.0f} MiB", lambda: hub.resident() <= hub.fresh + RSS_BOUND / 2)
    return f"{hub.resident():.0f} MiB {time.monotonic() - begin:.0f} s after"


def full_waiting_room(hubs):
    """At the agents' port, from one address, as many as there are places to wait in: half of them, and who comes from elsewhere gets in."""
    raise_limit()
    hub = hubs.plain()
    refused = 'mctunnel_peers_refused_total{code="MCT-HUB-OVERLOAD"}'
    before = hub.metrics().get(refused, 0)
    with Others(hub) as others:
        clients = {}
        for _ in range(5000):
            clients[hub.connect("tunnel", source="127.0.0.20", limit=30)] = time.monotonic()
        process, took = hub.agent(f"c{len(processes)}")
        for client in clients:
            client.setblocking(False)
        lived = until_hung_up(clients, HEAD + SLACK)
        wanted(len(lived) == len(clients), f"{len(clients) - len(lived)} are still open")
        for client in clients:
            client.close()
        stop(process)
        others.back()
    turned_away = hub.metrics().get(refused, 0) - before
    wanted(turned_away > 0, "nobody was refused for being one too many: there was room for all")
    wanted(took < 15, f"a new agent needed {took:.1f} s")
    others.all_served(10)
    return f"{turned_away:.0f} refused, a new agent got in after {took:.1f} s"


class IdleMeanwhile:
    """Connections that have had an answer, and say nothing more, while the other checks run."""

    def __init__(self, hub):
        self.hub, self.clients, self.lived = hub, {}, None
        self.begin = hub.descriptors()
        for _ in range(100):
            client = hub.connect()
            client.sendall(REQUEST)
            wanted(client.recv(4096).startswith(b"HTTP/1.1 404 "), "not answered")
            self.clients[client] = time.monotonic()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        self.lived = until_hung_up(self.clients, IDLE + SLACK)

    def result(self):
        self.thread.join()
        wanted(len(self.lived) == len(self.clients), f"{len(self.clients) - len(self.lived)} are still open after {IDLE + SLACK} s")
        first, last = min(self.lived.values()), max(self.lived.values())
        wanted(first > IDLE - 2, f"one was hung up on after {first:.0f} s")
        return f"after {first:.0f} to {last:.0f} s"


def idle_ends(hubs):
    return hubs.idle().result()


# === no descriptors left ===

def no_descriptors(hubs):
    hub = Hub(hubs.mctunnel, f"{hubs.directory}/few", descriptors=256)
    early = hub.connect()
    keep = f"GET {SERVICE}/small HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def early_is_served():
        early.sendall(keep)
        got = b""
        while not got.endswith(b"hello"):
            part = early.recv(4096)
            wanted(part, f"who was there before was cut after {got!r}")
            got += part

    early_is_served()
    begin, many = hub.descriptors(), []
    for listener in ["gateway", "gateway", "connect", "tunnel"]:
        for _ in range(200):
            client = hub.connect(listener)
            if listener == "gateway":
                client.sendall(REQUEST)
            many.append(client)
    eventually(10, "the hub without descriptors", lambda: hub.descriptors() >= 250 and "cannot be accepted" in hub.log())
    full = hub.descriptors()
    try:
        hub.ask(limit=1)
        raise Wrong("a new client was served: there were descriptors left")
    except TimeoutError:
        pass
    for _ in range(50):
        early_is_served()
    for client in many:
        client.close()
    gone = time.monotonic()
    eventually(15, "descriptors back", lambda: hub.descriptors() <= begin + 5)
    took = hub.ask()
    recovered = time.monotonic() - gone
    _, agent = hub.agent("c2")
    early_is_served()
    lines = [json.loads(line) for line in hub.log().splitlines()]
    wanted(len(lines) < 200, f"{len(lines)} lines in the log")
    errors = {line.get("error", "") for line in lines if "accepted" in line.get("message", "")}
    wanted(any("os error 24" in error for error in errors), f"not EMFILE but {errors}")
    return (f"{begin} descriptors, {full} of 256, {hub.descriptors()}; served again within {recovered:.1f} s ({took * 1000:.0f} ms), a new agent "
            f"within {agent:.1f} s; {len(lines)} lines in the log")


# === names that nobody has ===

def unknown_names(hubs):
    hub = hubs.plain()
    baseline(hub)
    counted = 'mctunnel_streams_refused_total{cluster="",code="MCT-OPEN-UNKNOWN-CLUSTER"}'

    def ask(client, numbers):
        client.sendall(b"".join(b"GET /unknown-%d/api HTTP/1.1\r\nHost: localhost\r\n\r\n" % n for n in numbers))
        answers, left = b"", len(numbers)
        while left:
            part = client.recv(1 << 18)
            wanted(part, "hung up on")
            answers += part
            left -= answers.count(b"HTTP/1.1 404 ")
            wanted(b"HTTP/1.1 2" not in answers and b"HTTP/1.1 5" not in answers, f"answered {answers[:200]!r}")
            answers = answers[-12:]

    with hub.connect(limit=30) as client:
        ask(client, range(1000))
        before, total, rss = hub.metrics(), 1000, hub.resident()
        begin = time.monotonic()
        with Others(hub) as others:
            while total < UNKNOWN:
                ask(client, range(total, total + 100))
                total += 100
        took = time.monotonic() - begin
    after = hub.metrics()
    grown = after.get(counted, 0) - before.get(counted, 0)
    wanted(grown == UNKNOWN - 1000, f"{counted} grew by {grown:.0f}: not all of them came there")
    new = sorted(set(after) - set(before))
    wanted(not new, f"{len(new)} new series: {new[:5]}")
    wanted(not any("unknown-" in name for name in after), "a name from outside became a label")
    others.all_served(max(5, int(took * 5)))  # they ask ten times a second, and this may be over in a moment
    others.small()
    return f"{UNKNOWN} names in {took:.0f} s, {len(before)} series before and {len(after)} after; {others.note()}"


# === the run ===

class Hubs:
    """Made when they are first wanted."""

    def __init__(self, mctunnel, directory):
        self.mctunnel, self.directory, self.made = mctunnel, directory, {}

    def get(self, name, make):
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def plain(self):
        return self.get("plain", lambda: Hub(self.mctunnel, f"{self.directory}/plain"))

    def tls(self):
        return self.get("tls", lambda: Hub(self.mctunnel, f"{self.directory}/tls", tls=True))

    def idle(self):
        return self.get("idle", lambda: IdleMeanwhile(Hub(self.mctunnel, f"{self.directory}/idle")))


CHECKS = [
    ("T40 slow heads (slowhttptest -H) end at the limit", slow_heads),
    ("T40 slow heads over TLS end at the limit", slow_heads_tls),
    ("T40 slow heads at the CONNECT listener end at the limit", slow_heads_connect),
    ("T40 slow bodies (slowhttptest -B) hold nobody up", slow_bodies),
    ("T40 slow readers (slowhttptest -X) hold nobody up", slow_reads),
    ("T40 TLS that stalls ends at the limit", tls_stalls),
    (f"T40 {MANY} silent clients are hung up on at the limit", many_silent),
    (f"T40 {MANY} idle clients leave room for others", many_idle),
    ("T40 a full waiting room at the agents' port lets in an agent from elsewhere", full_waiting_room),
    ("T40 without descriptors accepting goes on, and recovers", no_descriptors),
    (f"T40 {UNKNOWN} unknown names make no series", unknown_names),
    ("T40 idle connections end after two minutes", idle_ends),
]


def main(mctunnel, directory, pattern=""):
    hubs, passed, failed = Hubs(mctunnel, directory), 0, 0
    chosen = [(name, check) for name, check in CHECKS if re.search(pattern, name)]
    try:
        if idle_ends in [check for _, check in chosen]:
            hubs.idle()
        for name, check in chosen:
            begin = time.monotonic()
            try:
                note = check(hubs)
                passed += 1
                print(f"ok {name} ({time.monotonic() - begin:.1f} s; {note})", flush=True)
            except (Wrong, OSError, ValueError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED {name}: {error or type(error).__name__}", flush=True)
    finally:
        for process in processes:
            stop(process)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if sys.argv[1] == "target":
        asyncio.run(target(*sys.argv[2:]))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sys.exit(main(*sys.argv[1:]))
