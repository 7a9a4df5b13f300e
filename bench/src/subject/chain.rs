//! The reference: two haproxy processes with mutual TLS 1.3 between them, as an operator would set them up by hand.
//! Everything not named here is haproxy's default, the number of threads included.

use std::{
    fs,
    net::TcpListener,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::{Kind, Subject, straight_to};
use crate::{process::Process, relay::Relay};

/// What the proxies understand of what they carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Connections.
    Tcp,
    /// Requests, over connections that are kept and shared.
    Http,
}

/// Starts the chain in front of `target`; its files go to `dir`. With a delay, what one proxy sends to the other takes that
/// long.
pub(crate) fn chain(haproxy: &Path, dir: &Path, mode: Mode, target: &str, delay: Option<Duration>) -> Result<Subject> {
    fs::create_dir_all(dir)?;
    write_certificates(dir)?;
    let at = |file: &str| dir.join(file).display().to_string();
    let (ca, front_pem, back_pem) = (at("ca.pem"), at("front.pem"), at("back.pem"));

    let (back_listener, back) = listener()?;
    let back_config = config(
        mode,
        &format!("ssl crt {back_pem} ca-file {ca} verify required ssl-min-ver TLSv1.3"),
        &format!("server target {target}"),
    );
    let relay = delay.map(|delay| Relay::start(&back, delay)).transpose()?;
    let next = relay.as_ref().map_or(&back, |relay| &relay.address);
    let (front_listener, front) = listener()?;
    let front_config = config(
        mode,
        "",
        &format!(
            "server back {next} ssl crt {front_pem} ca-file {ca} verify required verifyhost {BACK_NAME} \
             sni str({BACK_NAME}) ssl-min-ver TLSv1.3"
        ),
    );
    let mut processes = vec![
        start(haproxy, dir, "front", &front_config, front_listener)?,
        start(haproxy, dir, "back", &back_config, back_listener)?,
    ];
    processes.extend(relay.map(|relay| relay.process));
    Ok(Subject { kind: Kind::Chain, route: straight_to(&front), processes })
}

/// Starts a haproxy that answers every request itself, with a few bytes; gives its address.
pub(crate) fn http_target(haproxy: &Path, dir: &Path) -> Result<(Process, String)> {
    fs::create_dir_all(dir)?;
    let (listener, address) = listener()?;
    let answer = "http-request return status 200 content-type text/plain string \"a small answer of a service\"";
    Ok((start(haproxy, dir, "target", &config(Mode::Http, "", answer), listener)?, address))
}

const BACK_NAME: &str = "back.bench.test";

/// Each connection takes two descriptors of a proxy; this many fit into a limit of 20,000.
pub(crate) const CHAIN_CONNECTIONS: usize = 9_900;

fn config(mode: Mode, bind: &str, server: &str) -> String {
    let mode = match mode {
        Mode::Tcp => "mode tcp",
        Mode::Http => "mode http\n  http-reuse always",
    };
    format!(
        "global\n  maxconn {CHAIN_CONNECTIONS}\n\
         defaults\n  {mode}\n  timeout connect 10s\n  timeout client 1h\n  timeout server 1h\n\
         listen bench\n  bind fd@0 {bind}\n  {server}\n"
    )
}

/// A listener to hand to a process as its standard input: no port has to be guessed.
fn listener() -> Result<(TcpListener, String)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

fn start(haproxy: &Path, dir: &Path, name: &str, config: &str, listener: TcpListener) -> Result<Process> {
    let file = dir.join(format!("{name}.cfg"));
    fs::write(&file, config)?;
    let mut command = Command::new(haproxy);
    command.arg("-db").arg("-f").arg(&file).stdin(Stdio::from(OwnedFd::from(listener)));
    let mut process = Process::start(&format!("haproxy {name}"), &mut command)?;
    process.check()?;
    Ok(process)
}

fn write_certificates(dir: &Path) -> Result<()> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.distinguished_name.push(DnType::CommonName, "bench");
    let key = KeyPair::generate()?;
    fs::write(dir.join("ca.pem"), authority.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(authority, key);
    let leaves = [
        ("front", "front.bench.test", ExtendedKeyUsagePurpose::ClientAuth),
        ("back", BACK_NAME, ExtendedKeyUsagePurpose::ServerAuth),
    ];
    for (file, name, usage) in leaves {
        let mut leaf = CertificateParams::new([name.to_owned()])?;
        leaf.extended_key_usages.push(usage);
        let key = KeyPair::generate()?;
        let pem = leaf.signed_by(&key, &issuer)?.pem() + &key.serialize_pem();
        let path = dir.join(format!("{file}.pem"));
        fs::write(&path, pem).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
