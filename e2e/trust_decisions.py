#!/usr/bin/env python3
"""What four users may do, asked of the gateway in thousands of ways, and compared with what is written here: e2e/trust calls it.

    trust_decisions.py HUB:PORT CA DIRECTORY    where USER.token, acme.crt and acme.key are

Each request is refused by the hub's policy, refused by the cluster's RBAC under the user's name, or passed. Which one is expected is
worked out from the two tables below, which are copied by hand from the policy and the objects of e2e/trust; neither mctunnel nor the
cluster is asked. Whatever would change something is a dry run.
"""
import collections, http.client, json, random, ssl, sys, threading, time

FEWEST, FEWEST_OF_A_CLASS = 5_000, 200
THREADS = 8
ANY = None
LOOK = {"get", "list", "watch"}
ENTER = {"pods/exec", "pods/attach", "pods/portforward"}
EVERYBODY_READS = {"/api", "/api/v1", "/apis", "/version"}

# === what is written in policy.yaml, and in the cluster's roles; all of it is about the core group ===

POLICY = {  # user: namespaces, resources, verbs
    "alice": [({"team-a", "team-c"}, {"pods", "pods/log", "configmaps"}, LOOK), ({"debug"}, {"pods"}, {"get"}), ({"debug"}, ENTER, {"connect"})],
    "ci": [({"team-b"}, {"configmaps"}, ANY)],
    "acme": [({"shop"}, {"configmaps", "services"}, {"get", "list"})],
    "robot": [(ANY, {"nodes", "persistentvolumes"}, {"get", "list"})],
}
RBAC = {
    "alice": [({"team-a"}, {"configmaps", "pods"}, LOOK), ({"debug"}, {"pods"}, {"get"}), ({"debug"}, ENTER, {"get", "create"})],
    "ci": [({"team-b"}, {"configmaps"}, {"get", "list", "create", "delete"})],
    "acme": [({"shop"}, {"configmaps", "pods"}, LOOK)],
    "robot": [(ANY, {"nodes"}, {"get", "list"})],
}
NAMES_IN_THE_CLUSTER = {
    "alice": "corp:alice", "ci": "ci", "acme": "partner:acme", "robot": "cluster:hub:system:serviceaccount:default:robot",
}

# === what is asked ===

NAMESPACES = ["team-a", "team-b", "team-c", "shop", "debug", "default", "kube-system", "nowhere"]
IN_NAMESPACES = [  # group and version, resource, kind, how many names
    ("v1", "pods", "Pod", 40), ("v1", "configmaps", "ConfigMap", 40), ("v1", "services", "Service", 40), ("v1", "secrets", "Secret", 3),
    ("v1", "serviceaccounts", "ServiceAccount", 2), ("apps/v1", "deployments", "Deployment", 2), ("batch/v1", "jobs", "Job", 2),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", 2),
]
IN_NONE = [
    ("v1", "nodes", "Node", 40), ("v1", "persistentvolumes", "PersistentVolume", 40), ("v1", "namespaces", "Namespace", 2),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", 2),
]
CONNECTED = {"pods/exec": "?command=true&stdout=1", "pods/attach": "?stdout=1", "pods/portforward": "?ports=80", "pods/proxy": "", "services/proxy": ""}
PATHS = ["/api", "/api/v1", "/apis", "/apis/apps", "/version", "/healthz", "/metrics", "/openapi/v2", "/openapi/v3", "/logs", "/"]
DRY = "?dryRun=All"
CHANGES = 12  # of the names, for what would change something

Request = collections.namedtuple("Request", "user method path verb group namespace resource body kind_of_body", defaults=[None, None])


def named(count):
    return (["one", "offer", "kept", "web", "shell", "away"] + [f"n-{number:02}" for number in range(count)])[:count]


def of_resource(user, version, resource, kind, count, namespace):
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    group = version.rpartition("/")[0]
    many = root + (f"/namespaces/{namespace}" if namespace else "") + f"/{resource}"

    def request(method, path, verb, name=None, kind_of_body="application/json"):
        body = json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": name}}) if name else None
        return Request(user, method, path, verb, group, namespace, resource, body, kind_of_body if name else None)

    yield request("GET", many, "list")
    yield request("GET", many + "?watch=1&timeoutSeconds=1", "watch")
    yield request("DELETE", many + DRY, "deletecollection")
    for number in range(min(count, 5)):
        yield request("POST", many + DRY, "create", f"made-{number}")
    for number, name in enumerate(named(count)):
        yield request("GET", f"{many}/{name}", "get")
        if number < CHANGES:
            yield request("PUT", f"{many}/{name}{DRY}", "update", name)
            yield request("PATCH", f"{many}/{name}{DRY}", "patch", name, "application/merge-patch+json")
            yield request("DELETE", f"{many}/{name}{DRY}", "delete")


def requests():
    for user in POLICY:
        for path in PATHS:
            for method in ("GET", "POST", "DELETE"):
                yield Request(user, method, path, method.lower(), None, None, None)
        for version, resource, kind, count in IN_NONE:
            yield from of_resource(user, version, resource, kind, count, None)
        for version, resource, kind, count in IN_NAMESPACES:
            root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            for verb, query in (("list", ""), ("watch", "?watch=1&timeoutSeconds=1")):
                yield Request(user, "GET", f"{root}/{resource}{query}", verb, version.rpartition("/")[0], None, resource)
            for namespace in NAMESPACES:
                yield from of_resource(user, version, resource, kind, count, namespace)
        for namespace in NAMESPACES:
            here = f"/api/v1/namespaces/{namespace}"
            for name in named(40):
                yield Request(user, "GET", f"{here}/pods/{name}/log", "get", "", namespace, "pods/log")
            for resource, query in CONNECTED.items():
                above, below = resource.split("/")
                for name in named(5):
                    for method in ("GET", "POST"):
                        yield Request(user, method, f"{here}/{above}/{name}/{below}{query}", "connect", "", namespace, resource)


# === what is expected, and what comes ===

def has(rules, request, verb):
    return any(
        (namespaces is ANY or request.namespace in namespaces) and request.resource in resources and (verbs is ANY or verb in verbs)
        for namespaces, resources, verbs in rules
    )


def expected(request):
    if request.resource is None:
        return "passed" if request.verb == "get" and request.path in EVERYBODY_READS else "hub"
    if request.group or not has(POLICY[request.user], request, request.verb):
        return "hub"
    # To Kubernetes what connects is a verb of the method.
    verb = {"GET": "get", "POST": "create"}[request.method] if request.verb == "connect" else request.verb
    return "passed" if has(RBAC[request.user], request, verb) else "rbac"


def got(request, status, text):
    """The class of an answer; what is in none of the three says what it was."""
    if status in (401, 429) or status >= 500 or (status != 403 and "MCT-" in text):
        return f"{status}: {text[:200]}"
    if status != 403:
        return "passed"
    try:
        answer = json.loads(text)
    except ValueError:
        return f"403 without a Status: {text[:200]}"
    causes = [cause.get("reason") for cause in (answer.get("details") or {}).get("causes") or []]
    if causes == ["MCT-HTTP-DENIED"]:
        return "hub"
    by_name = f'User "{NAMES_IN_THE_CLUSTER[request.user]}" cannot ' in answer.get("message", "")
    if answer.get("reason") == "Forbidden" and "MCT-" not in text and by_name:
        return "rbac"
    return f"403 of somebody else: {text[:300]}"


class Client:
    """One user's connection, kept alive."""

    def __init__(self, hub, ca, directory, user):
        self.host, _, port = hub.rpartition(":")
        self.port, self.fields, self.again = int(port), {"Accept": "application/json"}, 0
        self.tls = ssl.create_default_context(cafile=ca)
        self.tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if user == "acme":
            self.tls.load_cert_chain(f"{directory}/acme.crt", f"{directory}/acme.key")
        else:
            with open(f"{directory}/{user}.token") as file:
                self.fields["Authorization"] = "Bearer " + file.read().strip()
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPSConnection(self.host, self.port, timeout=30, context=self.tls)

    def ask(self, request):
        fields = dict(self.fields, **({"Content-Type": request.kind_of_body} if request.kind_of_body else {}))
        for attempt in range(3):
            try:
                self.connection.request(request.method, "/away" + request.path, request.body, fields)
                answer = self.connection.getresponse()
                return answer.status, answer.read().decode(errors="replace")
            except (OSError, http.client.HTTPException) as error:
                # The hub may end a connection between two requests.
                self.connection.close()
                self.connection = self.connect()
                self.again += 1
                if attempt == 2:
                    return 599, repr(error)


def main():
    hub, ca, directory = sys.argv[1:]
    asked = list(requests())
    random.Random(12).shuffle(asked)
    counts, mismatches, again, lock = collections.Counter(), [], 0, threading.Lock()

    def work(part):
        nonlocal again
        own, wrong, clients = collections.Counter(), [], {}
        try:
            clients = {user: Client(hub, ca, directory, user) for user in POLICY}
            for request in part:
                want, came = expected(request), got(request, *clients[request.user].ask(request))
                own[came if came in ("hub", "rbac", "passed") else "other"] += 1
                if came != want:
                    wrong.append(f"{request.user} {request.method} {request.path}: expected {want}, got {came}")
        except Exception as error:
            wrong.append(f"a thread ended: {error!r}")
        with lock:
            counts.update(own)
            mismatches.extend(wrong)
            again += sum(client.again for client in clients.values())

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(asked[number::THREADS],)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for line in mismatches:
        print(line)
    total = sum(counts.values())
    few = total < FEWEST or total != len(asked) or any(counts[name] < FEWEST_OF_A_CLASS for name in ("hub", "rbac", "passed"))
    if few:
        print(f"too few: {len(asked)} were to be asked")
    print(f"note: {total} decisions in {time.monotonic() - began:.0f} s: {counts['hub']} refused by the hub, {counts['rbac']} by RBAC, "
          f"{counts['passed']} passed, {len(mismatches)} mismatches, {again} connections anew", flush=True)
    raise SystemExit(1 if few or mismatches else 0)


main()
