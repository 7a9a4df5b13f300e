//! The closed sets of numbers on the wire: priorities and the codes with which things are refused, reset, drained and closed.

/// Makes an enum whose variants are protobuf enum values, with the conversions both ways.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident, unknown => $unknown:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant = $value,)* }

        impl $name {
            /// The number on the wire.
            #[must_use]
            pub const fn to_wire(self) -> u64 {
                self as u64
            }

            /// The meaning of a number; numbers of a later version are read as the most general variant.
            #[must_use]
            pub const fn from_wire(value: u64) -> Self {
                match value {
                    $($value => Self::$variant,)*
                    _ => Self::$unknown,
                }
            }
        }
    };
}

wire_enum! {
    /// The scheduling class of a stream.
    #[derive(Default)]
    Priority, unknown => Normal {
        /// The default.
        #[default]
        Normal = 0,
        /// A person waits for each answer.
        Interactive = 1,
        /// Nobody waits: reports, copies.
        Bulk = 2,
    }
}

wire_enum! {
    /// Why a stream was not opened.
    RefuseCode, unknown => Internal {
        /// The target is not on the allow-list.
        NotAllowed = 1,
        /// The target refused the connection.
        TargetRefused = 2,
        /// The target cannot be reached, or its name does not resolve.
        TargetUnreachable = 3,
        /// The target did not answer in time.
        TargetTimeout = 4,
        /// A limit on streams is reached.
        TooManyStreams = 5,
        /// The peer is about to stop.
        Draining = 6,
        /// The routing headers make no sense.
        BadRequest = 7,
        /// Something else.
        Internal = 8,
    }
}

wire_enum! {
    /// Why a stream was cut.
    ResetCode, unknown => Broken {
        /// The application went away.
        Cancelled = 1,
        /// The connection behind the stream broke.
        Broken = 2,
        /// Nobody answered in time.
        Timeout = 3,
        /// The grace of a drain ended.
        Drained = 4,
    }
}

wire_enum! {
    /// Why a tunnel is about to close.
    DrainReason, unknown => Stopping {
        /// The process is asked to stop.
        Stopping = 1,
        /// A newer tunnel of the same cluster took over.
        Replaced = 2,
    }
}

wire_enum! {
    /// Why a tunnel closed.
    CloseCode, unknown => Protocol {
        /// A drain is complete.
        Done = 1,
        /// A rule of the protocol was broken.
        Protocol = 2,
        /// A window was exceeded.
        FlowControl = 3,
        /// A budget against abuse was used up.
        Budget = 4,
        /// The peer was silent for too long.
        Silent = 5,
        /// No common protocol version.
        Version = 6,
    }
}
