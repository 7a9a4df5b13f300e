//! SHA-256, and a short name made of it for what must not be named itself.

use aws_lc_rs::digest::{Context, SHA256};
use std::fmt::Write as _;

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// The digest of parts that cannot run into each other: each counts with its length.
#[expect(single_use_lifetimes, reason = "anonymous lifetimes in `impl Trait` are not stable")]
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    finished(context)
}

/// The digest of the bytes.
pub(crate) fn of(bytes: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    finished(context)
}

/// How a token without a name of its own is called in records: enough to find it again, not enough to guess it.
pub(crate) fn short_name(digest: &Digest) -> String {
    format!("sha256:{}", hex(digest.split_at(8).0))
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn finished(context: Context) -> Digest {
    let mut digest = [0; 32];
    // SHA-256 has 32 bytes, so all of them are copied.
    for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha_256_and_parts_do_not_run_into_each_other() {
        assert_eq!(hex(&of(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_ne!(of_parts([&b"ab"[..], b"c"]), of_parts([&b"a"[..], b"bc"]));
        assert_eq!(short_name(&of(b"abc")), "sha256:ba7816bf8f01cfea");
    }
}
