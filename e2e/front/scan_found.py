#!/usr/bin/env python3
"""Judges what a scanner wrote: says what is wrong, and fails if anything is.

    scan_found.py sslscan FILE.xml FLOOR               FLOOR is the oldest version of TLS that may be there, 1.2 or 1.3
    scan_found.py testssl FILE.json FLOOR LISTENER ALLOWED
                                       ALLOWED is a file with `LISTENERS | ID | text of the finding | reason` on each line

testssl.sh calls TLS 1.0 no worse than LOW; here each version below the floor is a failure. A scan that found no TLS is a failure as well: then nothing was looked at.
"""
import json, re, sys, xml.etree.ElementTree as tree

SEVERITIES = ["DEBUG", "INFO", "OK", "LOW", "MEDIUM", "HIGH", "CRITICAL"]
# TLS 1.3 has no other suites that are not weak; of 1.2 these have forward secrecy and authenticated encryption.
STRONG = re.compile(r"TLS_(AES_128_GCM_SHA256|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)|ECDHE-(RSA|ECDSA)-(AES\d+-GCM-SHA\d+|CHACHA20-POLY1305)")


def sslscan(file, floor):
    test = tree.parse(file).find("ssltest")
    versions = {f"{p.get('type').upper()} {p.get('version')}" for p in test.findall("protocol") if p.get("enabled") == "1"}
    ciphers = [(c.get("sslversion"), c.get("cipher"), int(c.get("bits"))) for c in test.findall("cipher")]
    expected = {"TLS 1.2", "TLS 1.3"} if floor == "1.2" else {"TLS 1.3"}
    problems = [f"{version} is offered" for version in sorted(versions - expected)]
    problems += [f"{version} is not found" for version in sorted(expected - versions)]
    problems += [f"{version} has {name} with {bits} bits" for version, name, bits in ciphers if not STRONG.fullmatch(name) or bits < 128]
    problems += [f"{version} has ciphers" for version in sorted({v.replace("v", " ") for v, _, _ in ciphers} - expected)]
    problems += [] if ciphers else ["no cipher was found"]
    for name, bad in [("renegotiation", lambda e: e.get("supported") == "1" and e.get("secure") != "1"), ("compression", lambda e: e.get("supported") == "1"),
                      ("heartbleed", lambda e: e.get("vulnerable") == "1")]:
        problems += [f"{name}: {e.attrib}" for e in test.findall(name) if bad(e)]
    print(f"note: {', '.join(sorted(versions))}; {len(ciphers)} ciphers")
    return problems


def testssl(file, floor, listener, allowed):
    findings = json.load(open(file))
    of = {found["id"]: found["finding"] for found in findings}
    rules = [[part.strip() for part in line.split("|")] for line in open(allowed) if line.strip()]
    rules = [(rule, re.compile(rule[2])) for rule in rules]
    problems, excused = [], []
    for found in findings:
        severity = found["severity"]
        if severity in SEVERITIES and SEVERITIES.index(severity) <= SEVERITIES.index("LOW"):
            continue
        text = f"{found['id']}: {severity}: {found['finding']}"
        if any(listener in rule[0].split() and rule[1] == found["id"] and finding.fullmatch(found["finding"]) for rule, finding in rules):
            excused.append(found["id"])
        else:
            problems.append(text)
    above = ["TLS1_3"] + ["TLS1_2"] * (floor == "1.2")
    for version in ["SSLv2", "SSLv3", "TLS1", "TLS1_1", "TLS1_2", "TLS1_3"]:
        if of.get(version, "unknown").startswith("offered" if version in above else "not offered"):
            continue
        problems.append(f"{version}: {of.get(version, 'nothing was found')}")
    print(f"note: {len(findings)} findings; allowed: {', '.join(sorted(excused)) or 'none'}")
    return problems


if __name__ == "__main__":
    found = {"sslscan": sslscan, "testssl": testssl}[sys.argv[1]](*sys.argv[2:])
    print("; ".join(found))
    sys.exit(bool(found))
