//! The stable codes with which a hub turns peers away, each with what to do about it.

use mctunnel_core::ErrorCode;

/// A peer connected, but did not become a tunnel in time.
pub(crate) const TIMEOUT: ErrorCode =
    ErrorCode { code: "MCT-ADMIT-TIMEOUT", remedy: "check the load of the hub and the network between agent and hub" };

/// A peer with a valid certificate did not speak HTTP/2.
pub(crate) const HTTP2: ErrorCode =
    ErrorCode { code: "MCT-ADMIT-HTTP2", remedy: "check that nothing but agents connects to the tunnel port" };

/// A peer with a valid certificate did not make the call of a tunnel.
pub(crate) const CALL: ErrorCode =
    ErrorCode { code: "MCT-ADMIT-CALL", remedy: "check that nothing but agents connects to the tunnel port" };

/// The tunnel ended before the agent had introduced itself, or it did so wrongly.
pub(crate) const HELLO: ErrorCode = ErrorCode {
    code: "MCT-ADMIT-HELLO",
    remedy: "check that the agent's version fits the hub's, and look at the agent's log",
};

/// Two agents take a cluster from each other.
pub(crate) const DUEL: ErrorCode =
    ErrorCode { code: "MCT-ADMIT-DUEL", remedy: "stop one of the two agents that use the same join bundle" };

/// The connection was gone before TLS began.
pub(crate) const SOCKET: ErrorCode = ErrorCode {
    code: "MCT-ADMIT-SOCKET",
    remedy: "none needed if it is rare; else check the network between agent and hub",
};

/// The TLS handshake was not completed: no certificate, an expired one, one of another CA, or no TLS at all.
pub(crate) const TLS: ErrorCode = ErrorCode {
    code: "MCT-ADMIT-TLS",
    remedy: "use the join bundle of this hub, check the clocks, and that nothing but agents connects to the tunnel port",
};

/// The call claims to be of another cluster than the certificate says.
pub(crate) const NAME: ErrorCode = ErrorCode {
    code: "MCT-ADMIT-NAME",
    remedy: "use the join bundle of that cluster; if it was, look for who uses its certificate",
};

/// The certificate is of this hub's CA, but the cluster was removed or its certificate replaced.
pub(crate) const REVOKED: ErrorCode = ErrorCode {
    code: "MCT-ADMIT-REVOKED",
    remedy: "make a new bundle with 'mctunnel cluster add NAME --reissue', or stop the old agent",
};

/// What the hub has about the cluster cannot be read just now, so nobody new is let in by it.
pub(crate) const UNREAD: ErrorCode = ErrorCode {
    code: "MCT-ADMIT-UNREAD",
    remedy: "the hub's log says why, as too many open files or a file of another user; the agent tries again by itself",
};

/// An agent came while the hub was draining.
pub(crate) const STOPPING: ErrorCode =
    ErrorCode { code: "MCT-ADMIT-STOPPING", remedy: "none needed: the agent tries again by itself" };

/// More connections wait for their handshake than the hub takes.
pub(crate) const OVERLOAD: ErrorCode = ErrorCode {
    code: "MCT-HUB-OVERLOAD",
    remedy: "none needed after a restart of the hub, agents come back by themselves; else look for who connects so often",
};

/// A peer without a certificate did not ask to enrol, or not as one does.
pub(crate) const ENROL_CALL: ErrorCode =
    ErrorCode { code: "MCT-ENROL-CALL", remedy: "check that nothing but agents connects to the tunnel port" };

/// A cluster asked for a service that this hub does not offer to it.
pub(crate) const SERVICE_NOT_ALLOWED: ErrorCode = ErrorCode {
    code: "MCT-SERVICE-NOT-ALLOWED",
    remedy: "name the service and the cluster, or a label of it, in the hub's --services file; the audit log says which was missing",
};

/// A service that the hub offers to clusters does not answer.
pub(crate) const SERVICE_UNREACHABLE: ErrorCode = ErrorCode {
    code: "MCT-SERVICE-UNREACHABLE",
    remedy: "check the address of the service in the hub's --services file, and that it answers from there",
};

/// A stream towards the hub does not say what it is for.
pub(crate) const SERVICE_BAD_REQUEST: ErrorCode =
    ErrorCode { code: "MCT-SERVICE-BAD-REQUEST", remedy: "check that the agent's version fits the hub's" };

/// A cluster has as many streams towards the hub as it may.
pub(crate) const SERVICE_TOO_MANY: ErrorCode = ErrorCode {
    code: "MCT-SERVICE-TOO-MANY",
    remedy: "close connections to services of the hub in that cluster, or look for the program in it that opens so many",
};

/// The audit log takes no record, so no certificate is issued.
pub(crate) const ENROL_UNRECORDED: ErrorCode = ErrorCode {
    code: "MCT-ENROL-UNRECORDED",
    remedy: "check the disk of the hub's audit log; agents try again by themselves",
};

/// The audit log takes no record, so the service is not given.
pub(crate) const SERVICE_UNRECORDED: ErrorCode = ErrorCode {
    code: "MCT-SERVICE-UNRECORDED",
    remedy: "check the disk of the hub's audit log; streams are given again once it can be written",
};
