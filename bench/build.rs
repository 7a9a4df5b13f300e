//! Generates the gRPC code that `bench carrier` compares with; nothing without that feature.

fn main() -> anyhow::Result<()> {
    println!("cargo::rerun-if-changed=../proto");
    generate()
}

#[cfg(feature = "carrier")]
fn generate() -> anyhow::Result<()> {
    let descriptors = protox::compile(["mctunnel/tunnel/v1/tunnel.proto"], ["../proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}

#[cfg(not(feature = "carrier"))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as its twin")]
fn generate() -> anyhow::Result<()> {
    Ok(())
}
