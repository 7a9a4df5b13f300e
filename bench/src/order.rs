//! What a client asks of the sink: nine bytes at the start of every connection. Not a wire of mctunnel.

use std::io;

/// One order, sent once, before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Send this many bytes, then close the sending side.
    Download(u64),
    /// Take this many bytes, then answer one byte.
    Upload(u64),
    /// Send back whatever comes.
    Echo,
    /// Answer one byte, then stay open and silent.
    Hold,
    /// Read nothing for this many milliseconds, then close.
    Deaf(u64),
}

impl Order {
    pub(crate) const LEN: usize = 9;
    /// A download that outlasts any run.
    pub(crate) const ENDLESS: Self = Self::Download(u64::MAX);

    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let (kind, argument) = match self {
            Self::Download(bytes) => (b'D', bytes),
            Self::Upload(bytes) => (b'U', bytes),
            Self::Echo => (b'E', 0),
            Self::Hold => (b'H', 0),
            Self::Deaf(millis) => (b'X', millis),
        };
        let [a, b, c, d, e, f, g, h] = argument.to_be_bytes();
        [kind, a, b, c, d, e, f, g, h]
    }

    pub(crate) fn decode(bytes: [u8; Self::LEN]) -> io::Result<Self> {
        let [kind, argument @ ..] = bytes;
        let argument = u64::from_be_bytes(argument);
        match kind {
            b'D' => Ok(Self::Download(argument)),
            b'U' => Ok(Self::Upload(argument)),
            b'E' => Ok(Self::Echo),
            b'H' => Ok(Self::Hold),
            b'X' => Ok(Self::Deaf(argument)),
            other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("unknown order {other:#04x}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn an_order_survives_the_wire() {
        for order in [Order::Download(7), Order::Upload(u64::MAX), Order::Echo, Order::Hold, Order::Deaf(250)] {
            assert_eq!(Order::decode(order.encode()).unwrap(), order);
        }
        assert!(Order::decode([0; Order::LEN]).is_err());
    }
}
