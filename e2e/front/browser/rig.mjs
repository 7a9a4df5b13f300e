// What the checks of check.mjs stand on: certificates, servers that record, a hub with an agent, a browser and its own log.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

export const directory = mkdtempSync(join(tmpdir(), "mctunnel-browser-"));
const at = name => join(directory, name);
const children = [];

// === the end ===

const browsers = [];
let closing;

/** Ends the browsers and waits for them; the rest ends with this process. */
export const closeBrowsers = () => closing ??= Promise.allSettled(browsers.map(async starting => (await starting).close()));

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, async () => { await closeBrowsers(); process.exit(1); });

// === commands and certificates ===

// The hub takes every MCTUNNEL_* for a setting, which our own are not.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("MCTUNNEL")));

const run = (command, ...words) => execFileSync(command, words, { env: environment, stdio: ["ignore", "pipe", "pipe"] }).toString();
const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];

/** The CA of users, a certificate of the user `victim`, and one for the servers of this script, which nobody verifies. */
export function makeCertificates() {
  run("openssl", "req", "-x509", ...newKey, "-subj", "/CN=users", "-addext", "basicConstraints=critical,CA:TRUE",
    "-keyout", at("users.key"), "-out", at("users.crt"));
  run("openssl", "req", "-x509", ...newKey, "-subj", "/CN=victim", "-CA", at("users.crt"), "-CAkey", at("users.key"),
    "-addext", "extendedKeyUsage=clientAuth", "-addext", "basicConstraints=critical,CA:FALSE",
    "-keyout", at("victim.key"), "-out", at("victim.crt"));
  run("openssl", "pkcs12", "-export", "-in", at("victim.crt"), "-inkey", at("victim.key"), "-name", "victim", "-passout", "pass:",
    "-out", at("victim.p12"));
  run("openssl", "req", "-x509", ...newKey, "-subj", "/CN=pages", "-keyout", at("pages.key"), "-out", at("pages.crt"));
}

// === servers that record ===

const listening = async (server, port = 0, host = "127.0.0.1") => {
  await new Promise((done, failed) => server.once("error", failed).listen(port, host, done));
  return server.address().port;
};

/** Accepts a WebSocket and says nothing on it. */
function acceptWebSocket(request, socket) {
  socket.on("error", () => {});
  const key = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  const asked = request.headers["sec-websocket-protocol"];
  const protocol = asked ? `Sec-WebSocket-Protocol: ${asked.split(",")[0].trim()}\r\n` : "";
  socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
    `Sec-WebSocket-Accept: ${key}\r\n${protocol}\r\n`);
  socket.on("data", () => socket.end(Buffer.from([0x88, 0])));
}

/** What a server saw: each request with its fields, and the user by certificate. */
class Seen {
  requests = [];
  add(request) {
    const user = request.socket.authorized ? request.socket.getPeerCertificate().subject.CN : undefined;
    this.requests.push({ method: request.method, url: request.url, headers: request.headers, user });
  }
  of(marker) { return this.requests.filter(one => one.url.split("?")[0].endsWith(`/${marker}`)); }
}

/** Answers all that may get there with a page, and grants everything to everybody. With `tls`, it asks for certificates of users. */
export async function startServer({ tls = false } = {}) {
  const seen = new Seen();
  const answer = (request, response) => {
    seen.add(request);
    const grants = {
      "access-control-allow-origin": request.headers.origin ?? "*", "access-control-allow-credentials": "true",
      "access-control-allow-methods": "PUT, DELETE", "access-control-allow-headers": "authorization, content-type",
    };
    request.resume().on("end", () => response.writeHead(200, { "content-type": "text/html", ...grants }).end("<!doctype html>page"));
  };
  const server = tls
    ? https.createServer({ ...ownCertificate(), ca: readFileSync(at("users.crt")), requestCert: true, rejectUnauthorized: false }, answer)
    : http.createServer(answer);
  server.on("upgrade", (request, socket) => { seen.add(request); acceptWebSocket(request, socket); });
  return { seen, port: await listening(server) };
}

/** The attacker's server: a page, and redirects to wherever the query says. */
export async function startPages({ tls }) {
  const answer = (request, response) => {
    const [path, to] = request.url.split("?");
    const status = Number(path.slice(1));
    request.resume();
    if (status) response.writeHead(status, { location: decodeURIComponent(to) }).end();
    else response.writeHead(200, { "content-type": "text/html", connection: "close" }).end("<!doctype html>hello");
  };
  return listening(tls ? https.createServer(ownCertificate(), answer) : http.createServer(answer));
}

const ownCertificate = () => ({ key: readFileSync(at("pages.key")), cert: readFileSync(at("pages.crt")) });

/** An address of loopback, other than the first, with this port. `leadTo` puts behind it what is at 127.0.0.1, and ends what was open. */
export async function startMovingAddress(port) {
  const clients = new Set();
  let behind;
  const server = net.createServer(client => {
    const server = net.connect(behind, "127.0.0.1");
    clients.add(client);
    for (const [one, other] of [[client, server], [server, client]]) one.on("error", () => {}).on("close", () => other.destroy()).pipe(other);
    client.on("close", () => clients.delete(client));
  });
  const leadTo = port => { behind = port; for (const client of clients) client.destroy(); };
  for (let last = 2; ; last++) {
    const host = `127.0.0.${last}`;
    try {
      await listening(server, port, host);
      return { host, leadTo };
    } catch (error) {
      if (error.code !== "EADDRINUSE" || last === 250) throw error;
    }
  }
}

// === hub and agent ===

const POLICY = `version: 1
roles:
  all: {rules: [{clusters: ["*"], services: ["*/*:*"], methods: ["*"], paths: ["*"], protocols: ["*"]}]}
bindings: [{name: users, role: all, users: ["*"], providers: ["*"]}, {name: anybody, role: all, anonymous: true}]
deny: []
`;
const SERVICE = "/c1/api/v1/namespaces/default/services/http:web:80/proxy-service";

/** A hub, and an agent in front of the target; `auth` is the authentication file, without which nobody is asked. */
export async function startHub(name, { auth, target, flags = [] }) {
  const data = at(name), log = openSync(at(`${name}.log`), "a");
  const started = async (...words) => {
    const ready = at(`${name}.${words[0]}.ready`);
    const child = spawn(process.env.MCTUNNEL, [...words, "--admin-listen", "off", "--log-level", "error", "--ready-file", ready],
      { env: environment, stdio: ["ignore", log, log] });
    children.push(child);
    for (let left = 300; !existsSync(ready) || !readFileSync(ready).length; left--) {
      if (!left || child.exitCode !== null) throw new Error(`${name}: no ${words[0]}: ${readFileSync(at(`${name}.log`))}`);
      await sleep(100);
    }
    return readFileSync(ready).toString();
  };
  let trust = ["--insecure-no-auth"];
  if (auth) {
    writeFileSync(at(`${name}.auth.yaml`), auth);
    writeFileSync(at(`${name}.policy.yaml`), POLICY);
    trust = ["--auth-config", at(`${name}.auth.yaml`), "--policy", at(`${name}.policy.yaml`)];
  }
  const hub = JSON.parse(await started("hub", "--data-dir", data, "--tunnel-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0",
    "--connect-listen", "off", ...trust, ...flags));
  run(process.env.MCTUNNEL, "cluster", "add", "c1", "--data-dir", data, "--hub", hub.tunnel, "--out", at(`${name}.join`));
  await started("agent", "--join", at(`${name}.join`), "--allow-service", "default/web",
    "--pin-service", `default/web:80=127.0.0.1:${target.port}`);
  const newKey = () => /mctk_\w+/.exec(run(process.env.MCTUNNEL, "api-key", "create", "k", "--user", "robot", "--data-dir", data))[0];
  return { port: Number(hub.gateway.split(":").pop()), service: SERVICE, newKey };
}

// === browser ===

/** Chromium, for which `map` says where names lead; with `certificate`, it shows that of the victim to any site that asks. */
export async function startBrowser(name, { map, certificate = false }) {
  const home = at(`${name}.home`), profile = at(`${name}.profile`), log = at(`${name}.netlog`);
  mkdirSync(join(home, ".pki/nssdb"), { recursive: true });
  mkdirSync(join(profile, "Default"), { recursive: true });
  const preferences = { profile: { cookie_controls_mode: 0 } };   // cookies go along with what pages of other sites send
  if (certificate) {
    run("certutil", "-d", `sql:${home}/.pki/nssdb`, "-N", "--empty-password");
    run("pk12util", "-d", `sql:${home}/.pki/nssdb`, "-i", at("victim.p12"), "-W", "", "-K", "");
    // As the policy AutoSelectCertificateForUrls: nobody is there to choose.
    const always = JSON.stringify({ pattern: "*", filter: {} });
    preferences.profile.managed_auto_select_certificate_for_urls = [always];
  }
  writeFileSync(join(profile, "Default/Preferences"), JSON.stringify(preferences));
  const rules = Object.entries(map).map(([name, address]) => `MAP ${name} ${address}`).join(", ");
  const starting = chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium",
    env: { ...environment, HOME: home, XDG_CONFIG_HOME: join(home, "config"), XDG_CACHE_HOME: join(home, "cache") },
    ignoreHTTPSErrors: true, handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false,
    args: ["--no-sandbox", "--no-proxy-server", `--host-resolver-rules=${rules}`, `--log-net-log=${log}`,
      "--net-log-capture-mode=IncludeSensitive"],
  });
  browsers.push(starting);
  const context = await starting;
  return { context, close: async () => { await context.close(); return readNetLog(log); } };
}

/**
 * Each request that got an answer, by Chromium's own log: that has preflights, too. Where a WebSocket is refused over HTTP/1.1, it has the
 * status of the answer, and not its fields.
 */
function readNetLog(path) {
  const { constants, events } = JSON.parse(readFileSync(path));
  const types = Object.fromEntries(Object.entries(constants.logEventTypes).map(([name, number]) => [number, name]));
  const current = new Map(), streams = new Map(), exchanges = [];
  const nameOf = field => /^:?[^:]*/.exec(field)[0].toLowerCase();
  for (const { type, source, params } of events) {
    if (!params) continue;
    const request = current.get(source.id), stream = `${source.id} ${params.stream_id}`;
    switch (types[type]) {
      case "URL_REQUEST_START_JOB":
        if (params.url) current.set(source.id, { url: params.url, method: params.method });
        break;
      case "HTTP_TRANSACTION_READ_RESPONSE_HEADERS":
        exchanges.push({ ...request, status: Number(params.headers[0].split(" ")[1]), names: params.headers.slice(1).map(nameOf) });
        break;
      case "WEBSOCKET_UPGRADE_FAILURE":
        exchanges.push({ ...request, status: Number(/response code: (\d+)/.exec(params.message)?.[1]), names: [] });
        break;
      case "HTTP2_SESSION_SEND_HEADERS":
        if (params.headers.includes(":protocol: websocket")) streams.set(stream, current.get(params.source_dependency.id));
        break;
      case "HTTP2_SESSION_RECV_HEADERS":
        if (streams.has(stream)) {
          const status = params.headers.find(field => field.startsWith(":status: ")).slice(9);
          exchanges.push({ ...streams.get(stream), http2: true, status: Number(status), names: params.headers.map(nameOf) });
        }
        break;
    }
  }
  return exchanges.filter(one => one.url);
}
