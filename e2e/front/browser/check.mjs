// What pages of other sites can make a visitor's browser do at the gateway, with a real Chromium (T33, T34).
//
// The victim's browser shows a client certificate to whoever asks, and has cookies for the gateway's name. Pages of other origins try all
// that a page can send. Each attack is made twice: first at a server that takes everything, the mirror, where it must arrive with the
// certificate, or it would show nothing; then at the gateway, which must refuse it, and the target behind the gateway must not see it. The
// same is done by a page of the gateway's own origin, which must get through. What the gateway answered is read from Chromium's own log.
//
// Then a gateway on loopback that asks nobody: a page whose name is led there (DNS rebinding), and pages of other sites.
import { pathToFileURL } from "node:url";
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { closeBrowsers, directory, makeCertificates, startBrowser, startHub, startMovingAddress, startPages, startServer } from "./rig.mjs";

// === what a page can send ===

// Each runs in a page and ends when the browser is done with it. What they give counts where the list below says `tells`.
const inPage = {
  socket: (url, protocols = []) => new Promise(done => {
    const socket = new WebSocket(url.replace(/^http/, "ws"), protocols);
    socket.onopen = () => { done("passed"); socket.close(); };
    socket.onerror = () => done("refused");
  }),
  form: async (url, { method = "POST", policy } = {}) => {
    const refer = policy => document.head.insertAdjacentHTML("beforeend", `<meta name="referrer" content="${policy}">`);
    const name = `f${Math.random()}`;
    document.body.insertAdjacentHTML("beforeend", `<iframe name="${name}"></iframe><form enctype="text/plain"><input name="a" value="b"></form>`);
    const form = document.body.lastChild;
    if (policy) refer(policy);
    await new Promise(done => {
      form.previousSibling.onload = done;
      Object.assign(form, { method, action: url, target: name }).submit();
    });
    if (policy) refer("strict-origin-when-cross-origin");
  },
  element: (url, [name, attribute, more]) => new Promise(done => {
    const element = Object.assign(document.createElement(name), more, { onload: done, onerror: done });
    element[attribute] = url;
    document.body.append(element);
  }).then(() => undefined),
  fetch: (url, options) => fetch(url, { credentials: "include", ...options })
    .then(answer => answer.ok || answer.type === "opaque" ? "passed" : "refused", () => "refused"),
  events: url => new Promise(done => {
    const source = new EventSource(url, { withCredentials: true });
    source.onopen = source.onerror = () => { source.close(); done(); };
  }),
  beacon: url => new Promise(done => {
    new PerformanceObserver(list => { if (list.getEntries().some(entry => entry.name === url)) done(); }).observe({ type: "resource" });
    navigator.sendBeacon(url, "text");
  }),
};
const way = (what, options) => (frame, url) => {
  const late = sleep(20_000, undefined, { ref: false }).then(() => { throw new Error(`${what} ${url} did not end`); });
  return Promise.race([frame.evaluate(`(${inPage[what]})(${JSON.stringify(url)}, ${JSON.stringify(options)})`), late]);
};
const link = rel => async (frame, url) => {
  const clicked = ([url, rel]) => { Object.assign(document.createElement("a"), { href: url, rel, target: "_blank" }).click(); };
  const [tab] = await Promise.all([frame.page().context().waitForEvent("page"), frame.evaluate(clicked, [url, rel])]);
  await tab.waitForURL(url).finally(() => tab.close());
};
let redirect; // an URL of the attacker's that leads on to another one, given the status
const redirected = (status, way) => (frame, url) => way(frame, redirect(status, url));

const inProtocols = token => `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString("base64url")}`;
const sockets = { "a WebSocket": { do: way("socket"), tells: true } };
const socketsWithToken = { "a WebSocket with a made-up token": { do: way("socket", ["a", inProtocols("made-up")]), tells: true } };
const socketsLater = { "a WebSocket over HTTP/2": { do: way("socket"), tells: true, http2: true } }; // the browser has a connection by then
const image = way("element", ["img", "src"]);
const ways = {
  "a form, text/plain": { do: way("form") },
  "a form that says no referrer": { do: way("form", { policy: "no-referrer" }), foreignOnly: true },
  "a form, redirected": { do: redirected(307, way("form")), foreignOnly: true },
  "a form, GET": { do: way("form", { method: "GET" }) },
  "a POST that is not read": { do: way("fetch", { method: "POST", mode: "no-cors", body: "text" }) },
  "a POST that is read": { do: way("fetch", { method: "POST", body: "text" }), tells: true },
  "a GET that is read": { do: way("fetch", {}), tells: true },
  "a GET of events": { do: way("events") },
  "a beacon": { do: way("beacon") },
  "an image": { do: image },
  "an image, redirected": { do: redirected(302, image), foreignOnly: true },
  "a script": { do: way("element", ["script", "src"]) },
  "a style sheet": { do: way("element", ["link", "href", { rel: "stylesheet" }]) },
  "a prefetch": { do: way("element", ["link", "href", { rel: "prefetch" }]) },
  "a frame": { do: way("element", ["iframe", "src"]) },
  "a link": { do: link("opener") },
  "a link without opener and referrer": { do: link("noopener noreferrer") },
  "a preflight, PUT": { do: way("fetch", { method: "PUT", body: "text" }), tells: true, preflight: true },
  "a preflight, DELETE": { do: way("fetch", { method: "DELETE" }), tells: true, preflight: true },
  "a preflight, JSON": {
    do: way("fetch", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }), tells: true, preflight: true,
  },
};
const waysWithToken = {
  "a GET with a made-up token": { do: way("fetch", { headers: { authorization: "Bearer made-up" } }), tells: true, preflight: true },
};

// === the checks, each with what is wrong ===

let passed = 0, failed = 0;
function check(name, problems) {
  if (problems.length) failed++; else passed++;
  const more = problems.length > 4 ? `; and ${problems.length - 4} more` : "";
  console.log(problems.length ? `FAILED ${name}: ${problems.slice(0, 4).join("; ")}${more}` : `ok ${name}`);
}

let markers = 0;
const marker = () => `m${++markers}`; // the last part of an attack's path
const markerOf = url => new URL(url).pathname.split("/").pop();
const answersTo = (log, mark) => log.filter(one => markerOf(one.url) === mark);

/** What is wrong with an attack that must be refused with one of these. */
function notRefused(attack, log, target, statuses = [403]) {
  const answers = answersTo(log, attack.mark).filter(one => attack.at.test(one.url)), wrong = [];
  if (!answers.length) wrong.push("the gateway was not asked");
  if (attack.http2 && !answers.some(one => one.http2)) wrong.push("it was not over HTTP/2");
  for (const { method, status } of answers) {
    if (!statuses.includes(status)) wrong.push(`${method} got ${status}`);
    if (attack.preflight && method !== "OPTIONS") wrong.push(`${method} was sent`);
  }
  if (target.seen.of(attack.mark).length) wrong.push("the target saw it");
  if (attack.tells && attack.said !== "refused") wrong.push(`the page saw: ${attack.said}`);
  return wrong.map(text => `${attack.name ?? "it"}, ${attack.of}: ${text}`);
}

/** What is wrong with an attack at the mirror: there it must arrive, with what the browser adds. */
function notArrived(attack, mirror, { ambient }) {
  const arrived = mirror.seen.of(attack.mark).filter(one => one.method !== "OPTIONS"), wrong = [];
  if (!arrived.length) wrong.push("it did not arrive at the mirror");
  if (ambient && arrived.some(one => one.user !== "victim")) wrong.push("it had no certificate");
  if (ambient && arrived.some(one => !one.headers.cookie?.includes("session="))) wrong.push("it had no cookie");
  if (attack.preflight && !mirror.seen.of(attack.mark).some(one => one.method === "OPTIONS")) wrong.push("there was no preflight");
  if (attack.tells && attack.saidByMirror !== "passed") wrong.push(`the page saw of the mirror: ${attack.saidByMirror}`);
  return wrong.map(text => `${attack.name ?? "it"}, ${attack.of}: ${text}`);
}

/** What is wrong with a request that must be served. */
function notServed(one, log, target) {
  const statuses = answersTo(log, one.mark).map(answer => answer.status), wrong = [];
  if (!target.seen.of(one.mark).length) wrong.push(`the target did not see it, the answer was ${statuses}`);
  if (one.tells && one.said !== "passed") wrong.push(`the page saw: ${one.said}`);
  return wrong.map(text => `${one.of}: ${text}`);
}

/** Nothing that the gateway answers opens it to others, whatever the target says. */
function grants(log, at) {
  const answers = log.filter(one => at.test(one.url));
  const open = answers.filter(one => one.names.some(name => name.startsWith("access-control-") || name === "set-cookie"));
  return answers.length ? open.map(one => `${one.method} ${one.url}: ${one.names}`) : ["there was no answer"];
}

/** Makes each attack from a page or frame: at the mirror, then at the gateway. Both are the begin of an URL; `lead` prepares each. */
async function attack(frame, of, kinds, { mirror, gateway, at, lead = () => {} }) {
  const attacks = Object.entries(kinds).map(([name, kind]) => ({ ...kind, name, of, at, mark: marker() }));
  lead("mirror");
  for (const one of attacks) one.saidByMirror = await one.do(frame, `${mirror}/${one.mark}`);
  lead("gateway");
  for (const one of attacks) one.said = await one.do(frame, `${gateway}/${one.mark}`);
  return attacks;
}

/** The same from a page of the gateway's own origin, as far as it can. */
async function use(frame, gateway) {
  const own = Object.entries({ ...sockets, ...ways }).filter(([, kind]) => !kind.foreignOnly);
  const uses = own.map(([of, kind]) => ({ ...kind, of, mark: marker() }));
  for (const one of uses) one.said = await one.do(frame, `${gateway}/${one.mark}`);
  return uses;
}

// === the gateway that knows users by their certificates ===

async function ambientCredentials() {
  const target = await startServer(), mirror = await startServer({ tls: true });
  const pages = await startPages({ tls: true }), plainPages = await startPages({ tls: false });
  const auth = "providers: [{name: users, client_certificates: {ca_file: users.crt}}, {name: keys, api_keys: {}}]\n";
  const hub = await startHub("hub", { auth, target });
  const map = { "hub.corp.test:443": `127.0.0.1:${hub.port}`, "hub.corp.test:80": `127.0.0.1:${plainPages}`, "*.test": "127.0.0.1" };
  const sites = {
    mirror: `https://hub.corp.test:${mirror.port}`, gateway: `https://hub.corp.test${hub.service}`, at: /^(https|wss):\/\/hub\.corp\.test\//,
  };
  redirect = (status, url) => `https://evil.test:${pages}/${status}?${encodeURIComponent(url)}`;

  const victim = await startBrowser("victim", { map, certificate: true });
  await victim.context.addCookies([
    { name: "session", value: "1", domain: "hub.corp.test", path: "/", secure: true, httpOnly: true, sameSite: "None" },
  ]);
  const open = async url => { const page = await victim.context.newPage(); await page.goto(url); return page.mainFrame(); };
  const sandboxed = async url => {
    const frame = await open(url);
    const inside = await frame.evaluateHandle(() => new Promise(done => {
      const sandbox = document.createElement("iframe");
      sandbox.sandbox = "allow-scripts allow-forms allow-popups";
      sandbox.srcdoc = "<!doctype html><body>";
      sandbox.onload = () => done(sandbox);
      document.body.append(sandbox);
    }));
    return inside.asElement().contentFrame();
  };
  writeFileSync(`${directory}/page.html`, "<!doctype html>hello");
  const origins = {
    "another site": () => open(`https://evil.test:${pages}/`),
    "a name that ends like the gateway's": () => open(`https://evilhub.corp.test:${pages}/`),
    "a name that begins like the gateway's": () => open(`https://hub.corp.test.evil.test:${pages}/`),
    "a sibling": () => open(`https://wiki.corp.test:${pages}/`),
    "a sub-domain": () => open(`https://a.hub.corp.test:${pages}/`),
    "another port": () => open(`https://hub.corp.test:${pages}/`),
    "the same name without TLS": () => open("http://hub.corp.test/"),
    "a file": () => open(pathToFileURL(`${directory}/page.html`).href),
    "a sandboxed frame": () => sandboxed(`https://evil.test:${pages}/`),
    "a sandboxed frame in a page of the gateway": () => sandboxed(`${sites.gateway}/own`),
  };

  // The victim has been at both before: a browser asks nobody for a certificate because of a WebSocket.
  const own = await open(`${sites.gateway}/own`);
  await open(`${sites.mirror}/own`);
  const attacks = [];
  for (const [of, arrive] of Object.entries(origins)) {
    const frame = await arrive();
    attacks.push(...await attack(frame, of, { ...sockets, ...socketsWithToken, ...ways, ...waysWithToken, ...socketsLater }, sites));
    await frame.page().close();
  }
  const uses = await use(own, sites.gateway);

  // Another browser, which has no certificate: a page that has a token may use it, wherever it is from.
  const stranger = await startBrowser("stranger", { map });
  const page = await stranger.context.newPage();
  await page.goto(`${sites.gateway}/own`);
  await page.goto(`https://evil.test:${pages}/`);
  const key = inProtocols(hub.newKey()), dial = way("socket", ["v5.channel.k8s.io", key]);
  const withToken = { of: "with it", tells: true, mark: marker() }, without = { of: "without it", tells: true, at: sites.at, mark: marker() };
  without.said = await sockets["a WebSocket"].do(page.mainFrame(), `${sites.gateway}/${without.mark}`);
  // What arrives last: all that got through before has arrived, too.
  withToken.said = await dial(page.mainFrame(), `${sites.gateway}/${withToken.mark}`);

  const log = await victim.close(), strangersLog = await stranger.close();
  const named = name => attacks.filter(one => one.name === name);
  const bad = (one, statuses) => [...notArrived(one, mirror, { ambient: true }), ...notRefused(one, log, target, statuses)];
  const opened = Object.keys({ ...sockets, ...socketsLater }).flatMap(named);
  for (const of of Object.keys(origins)) check(`T33 a WebSocket of ${of}`, opened.filter(one => one.of === of).flatMap(one => bad(one)));
  for (const name of Object.keys(socketsWithToken))
    check(`T33 ${name} beside the certificate, of each of them`, named(name).flatMap(one => bad(one, [400, 403])));
  check("T33 a WebSocket of another site without certificate and token", notRefused(without, strangersLog, target));
  const shown = target.seen.of(withToken.mark).some(one => JSON.stringify(one.headers).includes(key));
  check("T33 a WebSocket of another site with a token is served",
    [...notServed(withToken, strangersLog, target), ...(shown ? ["the target saw the token"] : [])]);
  check("T33 a WebSocket of the gateway's own page is served", notServed(uses[0], log, target));
  for (const name of Object.keys({ ...ways, ...waysWithToken }))
    check(`T34 ${name}, of ${named(name).length} foreign origins`, named(name).flatMap(one => bad(one)));
  check("T34 what the gateway's own page sends is served", uses.slice(1).flatMap(one => notServed(one, log, target)));
  check("T34 no answer grants anything or sets a cookie", grants([...log, ...strangersLog], sites.at));
}

// === the gateway on loopback that asks nobody ===

async function nobodyIsAsked(how, auth) {
  const target = await startServer(), mirror = await startServer(), pages = await startPages({ tls: false });
  const hub = await startHub(auth ? "anonymous" : "open", { auth, target, flags: ["--gateway-plain"] });
  // DNS rebinding: what the attacker's name leads to has the gateway's port, and is first the attacker's server, then the gateway.
  const address = await startMovingAddress(hub.port);
  const map = { "attacker.test": address.host, "*.test": "127.0.0.1" };
  const { context, close } = await startBrowser(auth ? "anonymous-visitor" : "visitor", { map });
  const open = async url => { const page = await context.newPage(); await page.goto(url); return page.mainFrame(); };
  redirect = (status, url) => `http://evil.test:${pages}/${status}?${encodeURIComponent(url)}`;

  const site = (host, mirrorPort) => ({
    mirror: `http://${host}:${mirrorPort}/mirror`, gateway: `http://${host}:${hub.port}${hub.service}`,
    at: new RegExp(`^(http|ws)://${host}:${hub.port}/c1/`),
  });
  const rebound = { ...site("attacker.test", hub.port), lead: to => address.leadTo({ mirror, gateway: hub }[to].port) };
  address.leadTo(pages);
  const there = await open(`http://attacker.test:${hub.port}/`), elsewhere = await open(`http://evil.test:${pages}/`);
  const beside = await open(`http://localhost:${pages}/`), own = await open(`http://localhost:${hub.port}${hub.service}/own`);

  // A page whose name is led there is of the same origin as the gateway: the browser asks nobody before it sends, and lets the page read.
  const ofOneOrigin = kinds => Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, { ...kind, preflight: false }]));
  const all = { ...sockets, ...ways }, withToken = { ...socketsWithToken, ...waysWithToken };
  const groups = {
    "T34 a page whose name is led to the gateway": await attack(there, "rebound", ofOneOrigin(all), rebound),
    "T34 the same with a made-up token": await attack(there, "rebound", ofOneOrigin(withToken), rebound),
    "T34 a page of another site, by such a name": await attack(elsewhere, "elsewhere", all, rebound),
    "T34 a page of another site, by localhost": await attack(elsewhere, "elsewhere", all, site("localhost", mirror.port)),
    "T34 a page of another site, by an address": await attack(elsewhere, "elsewhere", all, site("127.0.0.1", mirror.port)),
    "T34 a page of another site, by localhost, with a made-up token":
      await attack(elsewhere, "elsewhere", withToken, site("localhost", mirror.port)),
    "T34 a page of another port of localhost": await attack(beside, "beside", { ...all, ...withToken }, site("localhost", mirror.port)),
  };
  const uses = await use(own, `http://localhost:${hub.port}${hub.service}`);

  const log = await close();
  const bad = one => [...notArrived(one, mirror, { ambient: false }), ...notRefused(one, log, target, [401, 403, 421])];
  for (const [name, attacks] of Object.entries(groups)) check(`${name} (${how})`, attacks.flatMap(bad));
  check(`T34 a page of the gateway by localhost is served (${how})`, uses.flatMap(one => notServed(one, log, target)));
  check(`T34 no answer grants anything or sets a cookie (${how})`, grants(log, /\/c1\//));
}

try {
  makeCertificates();
  await ambientCredentials();
  await nobodyIsAsked("--insecure-no-auth");
  await nobodyIsAsked("anonymous, unknown_tokens", "providers: [{name: keys, api_keys: {}}]\nanonymous: {unknown_tokens: true}\n");
} finally {
  await closeBrowsers();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
