//! The corpus: requests of which some reader somewhere has made two, none, or another one.

/// What must become of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The service sees exactly this one request.
    One(&'static str),
    /// The service sees nothing; the client gets this status and the end of the connection.
    Refused(u16),
    /// The service sees a body break off, and no request behind it.
    Broken,
}

use Fate::{Broken, One, Refused};

const GET: &str = "GET /c HTTP/1.1\r\n";
const POST: &str = "POST /c HTTP/1.1\r\n";

/// Each input, and what must become of it. Inputs in parts, to be read.
pub(crate) const CORPUS: &[(&[&str], Fate)] = &[
    // Good.
    (&[GET, "Host: h\r\n\r\n"], One("GET /c b\"\"")),
    (&[GET, "Host: h\r\nConnection: close\r\n\r\n"], One("GET /c b\"\"")),
    (&["GET /c HTTP/1.0\r\n\r\n"], One("GET /c b\"\"")),
    (&["HEAD /c/version HTTP/1.1\r\nHost: h\r\n\r\n"], One("HEAD /c/version b\"\"")),
    (&["GET /c/a%20b?c=d;e HTTP/1.1\r\nHost: h\r\n\r\n"], One("GET /c/a%20b?c=d;e b\"\"")),
    (&[POST, "Host: h\r\nContent-Length: 3\r\n\r\nabc"], One("POST /c b\"abc\"")),
    (&[POST, "Host: h\r\nContent-Length: 0\r\n\r\n"], One("POST /c b\"\"")),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"], One("POST /c b\"abc\"")),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n"], One("POST /c b\"abc\"")),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n"], One("POST /c b\"\"")),
    (&["DELETE /c/x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"], One("DELETE /c/x b\"{}\"")),
    (&[GET, "Host: h\r\nx-mctunnel-cluster: c\r\n\r\n"], One("GET /c b\"\"")),
    // Two lengths.
    (&[POST, "Host: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"], Refused(400)),
    (&[POST, "Host: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"], Refused(400)),
    (&[POST, "Host: h\r\nContent-Length: 3, 3\r\n\r\nabc"], Refused(400)),
    (&[POST, "Host: h\r\nContent-Length: +3\r\n\r\nabc"], Refused(400)),
    (&[POST, "Host: h\r\nContent-Length: 03\r\n\r\nabc"], Refused(400)),
    (&[POST, "Host: h\r\nContent-Length : 3\r\n\r\nabc"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&[POST, "Host: h\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"], Refused(400)),
    (&["POST /c HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], Refused(400)),
    // Line ends.
    (&["GET /c HTTP/1.1\nHost: h\n\n"], Refused(400)),
    (&[GET, "Host: h\nA: b\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nA: b\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nA: b\rContent-Length: 3\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nA: b\r\n Content-Length: 3\r\n\r\n"], Refused(400)),
    (&["\r\n", GET, "Host: h\r\n\r\n"], Refused(400)),
    // Hosts and targets.
    (&[GET, "\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nHost: h\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nHost: evil\r\n\r\n"], Refused(400)),
    (&["GET http://evil/c HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET http://user@h/c HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c#d HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["get /c HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c/\u{e9} HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c/%00 HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c/%zz HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c\\d HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET //c HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c/../d HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c/%2e%2e/d HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c%2fd HTTP/1.1\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c HTTP/1.1 \r\nHost: h\r\n\r\n"], Refused(400)),
    (&["GET /c HTTP/3.0\r\nHost: h\r\n\r\n"], Refused(400)),
    (&["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], Refused(400)),
    // Names and connections.
    (&[GET, "Host: h\r\nImpersonate-User: admin\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nImpersonate_User: admin\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nX-Remote-Group: system:masters\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nx-mctunnel-target: kube-apiserver\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nConnection: close, authorization\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n"], Refused(400)),
    (&[GET, "Host: h\r\nA: b\0\r\n\r\n"], Refused(400)),
    // Chunks.
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n1;e=\"v\r\na\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nImpersonate-User: a\r\n\r\n"], Broken),
    // The end comes too early.
    (&[POST, "Host: h\r\nContent-Length: 4\r\n\r\nabc"], Broken),
    (&[POST, "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"], Broken),
];

/// A request that must not be seen when it follows something refused or broken.
pub(crate) const SMUGGLED: &str = "GET /c/smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
