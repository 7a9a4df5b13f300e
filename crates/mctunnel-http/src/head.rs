//! Heads: from the types of the `http` crate to the wire and back. What does not fit the types is refused, never repaired.

use crate::{ExchangeError, Failure, wire};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, uri::PathAndQuery};
use http_body::Body;
use mctunnel_mux::RefuseCode;
use prost::Message;

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// There is none.
    None,
    /// Bytes up to the end of the direction.
    Raw,
    /// Chunks, with trailers perhaps.
    Chunks,
}

impl BodyKind {
    /// The cheapest way to send this body.
    #[must_use]
    pub fn of(body: &impl Body) -> Self {
        if body.is_end_stream() {
            Self::None
        } else if body.size_hint().exact().is_some() {
            Self::Raw
        } else {
            Self::Chunks
        }
    }

    fn to_wire(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Raw => 1,
            Self::Chunks => 2,
        }
    }

    fn from_wire(value: u32) -> Result<Self, ExchangeError> {
        match value {
            0 => Ok(Self::None),
            1 => Ok(Self::Raw),
            2 => Ok(Self::Chunks),
            _ => Err(ExchangeError::Protocol("an unknown kind of body")),
        }
    }
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// Path and query as the target is to see them.
    pub path: PathAndQuery,
    /// What the client called the target; may be empty.
    pub authority: Bytes,
    /// End-to-end fields. The agent refuses heads with others: `Connection` and what belongs to it, `Host`, names of an identity, and a
    /// length that is not the body's.
    pub fields: HeaderMap,
    /// How the body's end is told.
    pub body: BodyKind,
    /// Whether the client asks to upgrade.
    pub upgrade: bool,
}

impl RequestHead {
    /// The head as bytes, to be sent first.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        wire::delimited(&wire::RequestHead {
            method: Bytes::copy_from_slice(self.method.as_str().as_bytes()),
            path: Bytes::copy_from_slice(self.path.as_str().as_bytes()),
            authority: self.authority.clone(),
            fields: fields_to_wire(&self.fields),
            body: self.body.to_wire(),
            upgrade: self.upgrade,
        })
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, ExchangeError> {
        let head = wire::RequestHead::decode(bytes).map_err(|_| ExchangeError::Protocol("not a request head"))?;
        if !head.path.starts_with(b"/") {
            return Err(ExchangeError::Protocol("a path that does not begin with '/'"));
        }
        let body = BodyKind::from_wire(head.body)?;
        if head.upgrade && body != BodyKind::None {
            return Err(ExchangeError::Protocol("an upgrade with a body"));
        }
        Ok(Self {
            method: Method::from_bytes(&head.method).map_err(|_| ExchangeError::Protocol("not a method"))?,
            path: PathAndQuery::from_maybe_shared(head.path).map_err(|_| ExchangeError::Protocol("not a path"))?,
            authority: head.authority,
            fields: fields_from_wire(head.fields)?,
            body,
            upgrade: head.upgrade,
        })
    }
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// End-to-end fields.
    pub fields: HeaderMap,
    /// How the body's end is told.
    pub body: BodyKind,
}

/// What the answering end sends first.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The target's answer.
    Head(ResponseHead),
    /// There is none.
    Failure(Failure),
}

impl Answer {
    /// The answer's beginning as bytes, to be sent first.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        wire::delimited(&match self {
            Self::Head(head) => wire::Answer {
                head: Some(wire::ResponseHead {
                    status: head.status.as_u16().into(),
                    fields: fields_to_wire(&head.fields),
                    body: head.body.to_wire(),
                }),
                failure: None,
            },
            Self::Failure(failure) => wire::Answer {
                head: None,
                failure: Some(wire::Failure {
                    code: u32::try_from(failure.code.to_wire()).unwrap_or_default(),
                    message: failure.message.clone(),
                }),
            },
        })
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, ExchangeError> {
        let answer = wire::Answer::decode(bytes).map_err(|_| ExchangeError::Protocol("not an answer"))?;
        match (answer.head, answer.failure) {
            (Some(head), None) => {
                let status = u16::try_from(head.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
                Ok(Self::Head(ResponseHead {
                    status: status.ok_or(ExchangeError::Protocol("not a status"))?,
                    fields: fields_from_wire(head.fields)?,
                    body: BodyKind::from_wire(head.body)?,
                }))
            }
            (None, Some(failure)) => Ok(Self::Failure(Failure {
                code: RefuseCode::from_wire(failure.code.into()),
                message: failure.message,
            })),
            _ => Err(ExchangeError::Protocol("an answer that is none")),
        }
    }
}

pub(crate) fn fields_to_wire(fields: &HeaderMap) -> Vec<wire::Field> {
    let field = |(name, value): (&HeaderName, &HeaderValue)| wire::Field {
        name: Bytes::copy_from_slice(name.as_str().as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    fields.iter().map(field).collect()
}

pub(crate) fn fields_from_wire(fields: Vec<wire::Field>) -> Result<HeaderMap, ExchangeError> {
    if fields.len() > MOST_FIELDS {
        return Err(ExchangeError::Protocol("too many header fields"));
    }
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(&field.name).map_err(|_| ExchangeError::Protocol("not a field's name"))?;
        let value = HeaderValue::from_maybe_shared(field.value);
        map.append(name, value.map_err(|_| ExchangeError::Protocol("not a field's value"))?);
    }
    Ok(map)
}

/// More than any client or server we know sends; far below what a header map can hold.
const MOST_FIELDS: usize = 1024;
