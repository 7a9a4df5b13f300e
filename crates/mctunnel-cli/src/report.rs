//! What the user sees when a command cannot be carried out, and the status the program ends with.

use crate::{
    agent_identity::NotEnrolled,
    agent_reports::NoKubernetes,
    audit::AuditFailed,
    ca::StillNeeded,
    cluster_access::{CaFileError, NoToken},
    container_log::NoLog,
    control::ControlError,
    demo::DemoFailed,
    explain::UnknownCode,
    hub_client::AskFailed,
    hub_services::ServicesFileError,
    listen::ListenError,
    logs::NotAPod,
    output,
    process::ProcessError,
    ready_file::ReadyFileError,
    reports,
    settings::ConfigError,
    tls_roots::NoRoots,
    trust::UnclearTrust,
};
use anyhow::Error;
use mctunnel::{
    ErrorCode, IdentityError,
    agent::{
        InvalidAgent, allow::InvalidAllowRule, enrol::EnrolFailed, hub_address::InvalidHubAddress, pinned::InvalidPin,
        proxy::InvalidProxy,
    },
    core::InvalidClusterName,
    kube::{InvalidServiceRule, KubeError},
    report::{ReportError, kind::InvalidKind},
};
use mctunnel_audit::AuditError;
use mctunnel_authn::AuthnError;
use mctunnel_policy::{InvalidQuestion, PolicyError};
use mctunnel_store::OpenStoreError;
use std::process::ExitCode;

/// Something did not work at run time.
const RUNTIME: u8 = 1;
/// What was asked for makes no sense; the same status as for a wrong flag.
const USAGE: u8 = 2;

/// Tells the user, and gives the status to end with.
pub(crate) fn failure(error: &Error) -> ExitCode {
    if let Some(ControlError::Refused(refusal)) = error.downcast_ref() {
        // The hub's code, which may be one that this version does not know.
        output::note(&format!("error[{}]: {}\n  remedy: {}", refusal.code, refusal.message, refusal.remedy));
        return ExitCode::from(RUNTIME);
    }
    let (code, status) = coded(error);
    match code {
        Some(ErrorCode { code, remedy }) => output::note(&format!("error[{code}]: {error:#}\n  remedy: {remedy}")),
        None => output::note(&format!("error: {error:#}")),
    }
    ExitCode::from(status)
}

/// The one place that knows which errors have codes.
fn coded(error: &Error) -> (Option<ErrorCode>, u8) {
    if let Some(error) = error.downcast_ref::<ConfigError>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<InvalidAgent>() {
        of_agent(error)
    } else if let Some(error) = error.downcast_ref::<InvalidAllowRule>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<InvalidProxy>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<InvalidHubAddress>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<InvalidPin>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<InvalidServiceRule>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<KubeError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<UnclearTrust>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<AuthnError>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<PolicyError>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<AuditError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<OpenStoreError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(coded) = of_reports(error) {
        coded
    } else if let Some(error) = error.downcast_ref::<ServicesFileError>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<NoToken>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<CaFileError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<InvalidQuestion>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<AskFailed>() {
        // Not the status of a no.
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<NoRoots>() {
        (Some(error.code()), USAGE)
    } else if let Some(error) = error.downcast_ref::<UnknownCode>() {
        (Some(error.code()), USAGE)
    } else if error.is::<InvalidClusterName>() {
        let code = ErrorCode { code: "MCT-CLUSTER-BAD-NAME", remedy: "choose a name such as cluster-a" };
        (Some(code), USAGE)
    } else if let Some(error) = error.downcast_ref::<IdentityError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<EnrolFailed>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<NotEnrolled>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<StillNeeded>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<ControlError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<AuditFailed>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<ListenError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<ReadyFileError>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<DemoFailed>() {
        (Some(error.code()), RUNTIME)
    } else if let Some(error) = error.downcast_ref::<ProcessError>() {
        (Some(error.code()), RUNTIME)
    } else {
        (None, RUNTIME)
    }
}

/// What is about reports.
fn of_reports(error: &Error) -> Option<(Option<ErrorCode>, u8)> {
    let (code, status) = if let Some(error) = error.downcast_ref::<InvalidKind>() {
        (reports::code_of(error), USAGE)
    } else if let Some(error) = error.downcast_ref::<NoKubernetes>() {
        (error.code(), USAGE)
    } else if let Some(error) = error.downcast_ref::<NotAPod>() {
        (error.code(), USAGE)
    } else if let Some(error) = error.downcast_ref::<NoLog>() {
        (error.code(), RUNTIME)
    } else {
        (error.downcast_ref::<ReportError>()?.code(), RUNTIME)
    };
    Some((Some(code), status))
}

fn of_agent(error: &InvalidAgent) -> (Option<ErrorCode>, u8) {
    match error {
        InvalidAgent::HubAddress(error) => (Some(error.code()), USAGE),
        InvalidAgent::Identity(error) => (Some(error.code()), RUNTIME),
        InvalidAgent::ServerName(_) => {
            let code = ErrorCode {
                code: "MCT-AGENT-BAD-SERVER-NAME",
                remedy: "give the name that the hub's certificate has, as in hub.example.com",
            };
            (Some(code), USAGE)
        }
    }
}
