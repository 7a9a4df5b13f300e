#!/usr/bin/env python3
"""An independent reading of docs/security/policy.md: decides generated requests the slow and obvious way.

Reads JSON from standard input: a list of {"policy": POLICY, "requests": [REQUEST]}, where POLICY is a policy file in the form of
JSON. Writes a JSON list with one list for each policy, with the rule that decides each request, "+" in front if it allows.

It shares no code with the crate it checks, and has no index, no sets and no order but that of the file.
"""

import datetime
import ipaddress
import json
import re
import sys

# Resources of Kubernetes itself that live outside of namespaces, as far as the generator uses them.
OUTSIDE = {("", "nodes"), ("", "namespaces")}
CONNECT = {"exec", "attach", "portforward", "proxy"}
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class Fails(Exception):
    """A condition that cannot be evaluated."""


def key(mapping, name):
    if name not in mapping:
        raise Fails(name)
    return mapping[name]


def told(request, part):
    """A part of a request, as conditions see it: empty if there is none, and a failure if there may be one that is not told."""
    asked = request["asked"]
    if asked["kind"] == "bytes":
        # Plain bytes may be any request to the same target.
        if part == "path" or asked["target"] == "kube-apiserver":
            raise Fails(part)
        return ""
    value = asked.get(part) or ""
    if asked["kind"] == "resource" and value == "":
        if part == "name" or part == "namespace" and in_many_namespaces(asked):
            raise Fails(part)
    return value


def in_many_namespaces(asked):
    return asked["verb"] in ("list", "watch", "deletecollection") and (asked["group"], asked["resource"]) not in OUTSIDE


def both(left, right):
    """`left && right`: false if one of them is false, whatever became of the other."""
    failed = None
    for side in (left, right):
        try:
            if not side():
                return False
        except Fails as fails:
            failed = fails
    if failed is not None:
        raise failed
    return True


# The conditions that the generator uses, as a person would read them.
CONDITIONS = {
    "user.name == 'alice'": lambda r: r["user"] == "alice",
    "'ops' in user.groups": lambda r: "ops" in r["groups"],
    "user.groups.exists(g, g.startsWith('team-'))": lambda r: any(g.startswith("team-") for g in r["groups"]),
    "cluster.labels.env == 'prod'": lambda r: key(r["labels"], "env") == "prod",
    "user.extra.level[0] == 'high'": lambda r: key(r["extra"], "level")[0] == "high",
    "request.kind == 'resource' && request.verb in ['get', 'list']": lambda r: r["asked"]["kind"] == "resource"
    and r["asked"]["verb"] in ["get", "list"],
    "time.weekday <= 5 && time.hour >= 8": lambda r: r["when"].isoweekday() <= 5 and r["when"].hour >= 8,
    "!(request.namespace == 'kube-system')": lambda r: told(r, "namespace") != "kube-system",
    "request.namespace == 'kube-system'": lambda r: told(r, "namespace") == "kube-system",
    "has(request.namespace) && request.namespace == 'kube-system'": lambda r: r["asked"].get("namespace") == "kube-system",
    "request.resource == 'secrets' && request.name == 'a'": lambda r: both(
        lambda: told(r, "resource") == "secrets", lambda: told(r, "name") == "a"
    ),
    "request.path == '/a'": lambda r: told(r, "path") == "/a",
    "protocol == 'grpc'": lambda r: r["protocol"] == "grpc",
}


def has(names, name):
    return names == ["*"] or name in names


def kube(method, target):
    """What a request means to a kube-apiserver."""
    path, _, query = target.partition("?")
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, parts = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, parts = parts[1], parts[3:]
    else:
        verbs = {m: m.lower() for m in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]}
        return {"kind": "path", "verb": verbs.get(method), "path": path}
    namespace = None
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in ("status", "finalize"):
            parts = parts[2:]
    resource, name, sub = (parts + [None, None])[:3]
    verb = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
    if sub in CONNECT:
        verb = "connect"
    elif resource == "serviceaccounts" and sub == "token":
        verb = "create"
    elif name is None and verb == "get":
        verb = "watch" if "watch=true" in query else "list"
    elif name is None and verb == "delete":
        verb = "deletecollection"
    return dict(kind="resource", verb=verb, group=group, resource=resource, sub=sub, namespace=namespace, name=name)


def covers_resource(pattern, resource, sub):
    if pattern == "*/*":
        return True
    if "/" not in pattern:
        return sub is None and pattern in ("*", resource)
    left, right = pattern.split("/")
    return sub is not None and left in ("*", resource) and right in ("*", sub)


def covers_path(pattern, path, deny):
    if pattern == "*":
        return True
    if pattern.endswith("/*"):
        return path.startswith(pattern[:-1])
    return pattern == path or deny and pattern.rstrip("/") == path.rstrip("/")


def covers_target(pattern, target, deny):
    """A service `namespace/name:port`, an endpoint `host:port`, or `kube-apiserver`."""
    if "kube-apiserver" in (pattern, target):
        return pattern == target
    if ("/" in pattern) != ("/" in target):
        return False
    if "/" not in pattern:
        (host, port), (asked_host, asked_port) = pattern.split(":"), target.split(":")
        return host in ("*", asked_host) and port in ("*", asked_port)
    own, port = pattern.split(":")
    asked, asked_port = target.split(":") if ":" in target else (target, "")
    if port not in ("*", asked_port):
        # To deny, a port that is not named or named in the other way may be the same.
        if not deny or (asked_port != "" and asked_port.isdigit() == port.isdigit()):
            return False
    return all(a in ("*", b) for a, b in zip(own.split("/"), asked.split("/")))


def covers(rule, request, clusters, deny):
    """Whether a rule has a request; to deny, whether it may have it."""
    labels = clusters.get(request["cluster"])
    if "clusterLabels" in rule:
        if labels is None or any(labels.get(k) != v for k, v in rule["clusterLabels"].items()):
            return False
    elif not has(rule["clusters"], request["cluster"]):
        return False
    asked, kind = request["asked"], request["asked"]["kind"]
    if kind == "bytes":
        target = asked["target"]
        if "bytes" in rule:
            return has(rule["protocols"], asked["protocol"]) and any(covers_target(p, target, deny) for p in rule["bytes"])
        if not deny:
            return False
        if "resources" in rule or "nonResourcePaths" in rule:
            return target == "kube-apiserver"
        return any(covers_target(p, target, deny) for p in rule.get("services", []) + rule.get("endpoints", []))
    if kind == "path":
        return (
            "nonResourcePaths" in rule
            and has(rule["verbs"], asked["verb"])
            and any(covers_path(p, asked["path"], deny) for p in rule["nonResourcePaths"])
        )
    if kind == "http":
        targets = rule.get("services", []) + rule.get("endpoints", [])
        return (
            any(covers_target(p, asked["target"], deny) for p in targets)
            and has(rule["methods"], asked["method"])
            and any(covers_path(p, asked["path"], deny) for p in rule["paths"])
            and (has(rule["protocols"], asked["protocol"]) or deny and {"http", "grpc"} & set(rule["protocols"]) != set())
        )
    if "resources" not in rule or not has(rule["verbs"], asked["verb"]) or not has(rule["apiGroups"], asked["group"]):
        return False
    if not any(covers_resource(p, asked["resource"], asked["sub"]) for p in rule["resources"]):
        return False
    if asked["namespace"] is not None:
        if not has(rule["namespaces"], asked["namespace"]):
            return False
    elif rule["namespaces"] != ["*"]:
        many = asked["verb"] in ("list", "watch", "deletecollection")
        if not (deny and many and (asked["group"], asked["resource"]) not in OUTSIDE):
            return False
    if asked["name"] is not None:
        if deny and asked["verb"] == "connect" and any(part in rule["names"] for part in asked["name"].split(":")):
            return True
        return has(rule["names"], asked["name"])
    return rule["names"] == ["*"] or deny


def in_window(window, when):
    sign, hours, minutes = re.fullmatch(r"([+-])(\d\d):(\d\d)", window.get("utcOffset", "+00:00")).groups()
    offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
    local = when + offset if sign == "+" else when - offset
    minute = local.hour * 60 + local.minute

    def of(text):
        return int(text[:2]) * 60 + int(text[3:])

    def on(day):
        return has(window["days"], DAYS[day % 7])

    start, end = of(window["from"]), of(window["to"])
    if start < end:
        return on(local.weekday()) and start <= minute < end
    return on(local.weekday()) and minute >= start or on(local.weekday() - 1) and minute < end


def holds(part, request, deny):
    when = request["when"]
    if "notBefore" in part and when < time(part["notBefore"]):
        return False
    if "notAfter" in part and when >= time(part["notAfter"]):
        return False
    if "window" in part and not in_window(part["window"], when):
        return False
    if "sources" in part:
        if request["source"] is None:
            if not deny:
                return False
        else:
            source = ipaddress.ip_address(request["source"])
            source = getattr(source, "ipv4_mapped", None) or source
            if not any(source in ipaddress.ip_network(network) for network in part["sources"]):
                return False
    if "when" in part:
        # To deny, http and grpc are one: the client says which it is.
        spoken = ["http", "grpc"] if deny and request["protocol"] in ("http", "grpc") else [request["protocol"]]
        return any(condition(part["when"], {**request, "protocol": protocol}, deny) for protocol in spoken)
    return True


def condition(text, request, deny):
    try:
        return CONDITIONS[text](request)
    except Fails:
        return deny


def is_about(part, request, deny):
    if request["user"] is None:
        return part.get("anonymous", False) or deny and part.get("users") == ["*"]
    named = has(part.get("users", []), request["user"]) or any(g in request["groups"] for g in part.get("groups", []))
    return named and has(part["providers"], request["provider"])


def time(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)


def decide(policy, request):
    """What asks for an upgrade has to be allowed as what it is with it, and as what it is if nobody takes the upgrade."""
    clusters = policy.get("clusters", {})
    request["labels"] = clusters.get(request["cluster"], {})
    request["when"] = time(request["time"])
    request["protocol"] = "http"
    if "kube" in request:
        plain = kube(request["kube"]["method"], request["kube"]["path"])
        if plain["verb"] is None:
            return "the method has no meaning here"
        answers = [decide_one(policy, {**request, "asked": asked}, clusters) for asked in upgraded(plain, request["kube"])]
        refused = [answer for answer in answers if not answer.startswith("+")]
        return (refused + answers)[0]
    kind = "http" if "http" in request else "bytes"
    request["asked"] = {"kind": kind, **request[kind]}
    request["protocol"] = request[kind]["protocol"]
    return decide_one(policy, request, clusters)


def upgraded(plain, sent):
    """The meanings of a request to a kube-apiserver, the one with the upgrade first."""
    if not sent["upgrade"] or plain["kind"] == "path" or plain["verb"] == "connect":
        return [plain]
    if plain["verb"] == "watch" and plain["sub"] is None or plain["verb"] == "get" and plain["sub"] == "log":
        return [plain]
    return [{**plain, "verb": "connect"}, plain]


def decide_one(policy, request, clusters):
    for deny in policy["deny"]:
        if is_about(deny, request, True) and holds(deny, request, True):
            for number, rule in enumerate(deny["rules"], 1):
                if covers(rule, request, clusters, True):
                    return f"deny {deny['name']}, rule {number}"
    for binding in policy["bindings"]:
        if is_about(binding, request, False) and holds(binding, request, False):
            for number, rule in enumerate(policy["roles"][binding["role"]]["rules"], 1):
                if covers(rule, request, clusters, False):
                    return f"+role {binding['role']}, rule {number}, binding {binding['name']}"
    return "no rule allows it"


cases = json.load(sys.stdin)
json.dump([[decide(case["policy"], request) for request in case["requests"]] for case in cases], sys.stdout)
