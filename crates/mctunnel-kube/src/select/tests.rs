//! Tables: which port, which endpoints, in which order, and what is said when there is none.

use super::*;
use crate::{
    object::{EndpointSlice, Service},
    view::{Keep, View},
};
use serde_json::{Value, json};

fn web() -> ServiceName {
    ServiceName::parse("default/web").unwrap()
}

fn view(service: &Value, slices: &[Value]) -> View {
    let mut view = View::default();
    let service: Service =
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": service})).unwrap();
    service.keep(&mut view, None);
    for (index, slice) in slices.iter().enumerate() {
        let mut slice = slice.clone();
        slice["metadata"] = json!({
            "name": format!("web-{index}"), "namespace": "default", "managedFields": [{"manager": "x"}],
            "labels": {"kubernetes.io/service-name": "web", "other": "label"},
        });
        serde_json::from_value::<EndpointSlice>(slice).unwrap().keep(&mut view, Some("zone-a"));
    }
    view
}

fn port(text: &str) -> ServicePort {
    ServicePort::parse(text).unwrap()
}

fn choose(view: &View, wanted: &str, random: u64) -> Result<(u16, Vec<String>), LocateError> {
    let (port, chosen) = choose_all(view, wanted, random)?;
    Ok((port, chosen.addresses.iter().map(ToString::to_string).collect()))
}

fn choose_all(view: &View, wanted: &str, random: u64) -> Result<(u16, ChosenEndpoints), LocateError> {
    let service = view.service(&web()).unwrap();
    let port = choose_port(&web(), service, &port(wanted))?;
    let api = ["10.0.0.99:6443".parse().unwrap()];
    Ok((port.number, choose_endpoints(&web(), port, &view.slices(&web()), &api, random)?))
}

fn ready(addresses: &[&str]) -> Vec<Value> {
    addresses.iter().map(|address| json!({"addresses": [address]})).collect()
}

fn given(number: u16, addresses: &[&str]) -> Result<(u16, Vec<String>), LocateError> {
    Ok((number, addresses.iter().map(ToString::to_string).collect()))
}

#[test]
fn a_port_is_found_by_number_by_name_or_as_the_only_one() {
    let one = view(
        &json!({"ports": [{"port": 80, "targetPort": "http"}, {"port": 53, "protocol": "UDP", "name": "dns"}]}),
        &[json!({"endpoints": ready(&["10.0.0.1"]), "ports": [{"port": 8080}]})],
    );
    assert_eq!(choose(&one, "", 0), given(80, &["10.0.0.1:8080"]));
    assert_eq!(choose(&one, "80", 0), given(80, &["10.0.0.1:8080"]));
    for (wanted, message) in [
        ("8080", "service default/web has no TCP port 8080; it has 80"),
        ("53", "service default/web has no TCP port 53; it has 80"),
        ("http", "service default/web has no TCP port named http; it has 80"),
    ] {
        assert_eq!(choose(&one, wanted, 0), Err(LocateError::NotFound(message.to_owned())));
    }
}

#[test]
fn of_several_ports_one_must_be_named() {
    let two = view(
        &json!({"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]}),
        &[
            json!({"endpoints": ready(&["10.0.0.1"]), "ports": [{"name": "metrics", "port": 9100}, {"name": "http", "port": 8080}]}),
        ],
    );
    assert_eq!(choose(&two, "http", 0), given(80, &["10.0.0.1:8080"]));
    assert_eq!(choose(&two, "9090", 0), given(9090, &["10.0.0.1:9100"]));
    let message = "service default/web has several ports, ask for one of them: 80 (http), 9090 (metrics)";
    assert_eq!(choose(&two, "", 0), Err(LocateError::NotFound(message.to_owned())));
}

#[test]
fn a_named_target_port_may_differ_from_slice_to_slice() {
    let view = view(
        &json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}]}),
        &[
            json!({"endpoints": ready(&["10.0.0.1"]), "ports": [{"name": "http", "port": 8080}]}),
            json!({"endpoints": ready(&["10.0.0.2"]), "ports": [{"name": "http", "port": 8081}]}),
            json!({"endpoints": ready(&["10.0.0.3"]), "ports": [{"name": "other", "port": 8082}]}),
            json!({"endpoints": ready(&["10.0.0.4"]), "ports": [{"name": "http", "port": 8083, "protocol": "UDP"}]}),
        ],
    );
    assert_eq!(choose(&view, "http", 0), given(80, &["10.0.0.1:8080", "10.0.0.2:8081"]));
}

#[test]
fn a_headless_service_without_ports_is_reached_at_the_number() {
    let slices = [json!({"endpoints": ready(&["10.0.0.1"]), "ports": null})];
    let view = view(&json!({"clusterIP": "None"}), &slices);
    assert_eq!(choose(&view, "5432", 0), given(5432, &["10.0.0.1:5432"]));
    assert!(matches!(choose(&view, "", 0), Err(LocateError::NotFound(_))));
    assert!(matches!(choose(&view, "pg", 0), Err(LocateError::NotFound(message)) if message.ends_with("it has none")));
}

#[test]
fn ready_endpoints_come_before_draining_ones_and_others_never() {
    let endpoint = |ip: &str, conditions: Value| json!({"addresses": [ip], "conditions": conditions});
    let is_ready = endpoint("10.0.0.1", json!({"ready": true, "serving": true, "terminating": false}));
    let unsaid = endpoint("10.0.0.2", json!({}));
    let draining = endpoint("10.0.0.3", json!({"ready": false, "serving": true, "terminating": true}));
    let down = endpoint("10.0.0.4", json!({"ready": false, "serving": false, "terminating": false}));
    let going = endpoint("10.0.0.5", json!({"ready": false, "serving": false, "terminating": true}));
    let starting = endpoint("10.0.0.6", json!({"ready": false}));
    let always = endpoint("10.0.0.7", json!({"ready": true, "serving": false, "terminating": true}));
    for (endpoints, expected) in [
        (vec![&draining, &down, &is_ready, &unsaid], given(80, &["10.0.0.1:80", "10.0.0.2:80"])),
        (vec![&down, &draining, &starting], given(80, &["10.0.0.3:80"])),
        (vec![&always, &draining], given(80, &["10.0.0.7:80"])),
        (
            vec![&down, &going, &starting],
            Err(LocateError::NoneReady(
                "service default/web has no ready endpoint for port 80, of 3 in all".to_owned(),
            )),
        ),
        (
            vec![],
            Err(LocateError::NoneReady(
                "service default/web has no ready endpoint for port 80, of 0 in all".to_owned(),
            )),
        ),
    ] {
        let view = view(&json!({"ports": [{"port": 80}]}), &[json!({"endpoints": endpoints, "ports": [{"port": 80}]})]);
        assert_eq!(choose(&view, "80", 0), expected);
    }
}

#[test]
fn endpoints_of_the_own_zone_come_first_and_each_group_begins_anywhere() {
    let endpoint = |ip: &str, zone: &str| json!({"addresses": [ip], "hints": {"forZones": [{"name": zone}]}});
    let endpoints = [
        endpoint("10.0.0.1", "zone-b"),
        endpoint("10.0.0.2", "zone-a"),
        json!({"addresses": ["10.0.0.3"], "hints": null, "conditions": null}),
        endpoint("10.0.0.4", "zone-a"),
    ];
    let view = view(&json!({"ports": [{"port": 80}]}), &[json!({"endpoints": endpoints, "ports": [{"port": 80}]})]);
    assert_eq!(choose(&view, "", 0), given(80, &["10.0.0.2:80", "10.0.0.4:80", "10.0.0.1:80", "10.0.0.3:80"]));
    assert_eq!(choose(&view, "", 1), given(80, &["10.0.0.4:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.1:80"]));
    assert_eq!(choose(&view, "", u64::MAX), choose(&view, "", 1));
    assert_eq!(choose_all(&view, "", 0).unwrap().1.preferred, 2);
}

#[test]
fn special_addresses_and_the_kube_apiserver_are_never_given() {
    let slice = |addresses: &[&str], port: u16| json!({"endpoints": ready(addresses), "ports": [{"port": port}]});
    let service = json!({"ports": [{"port": 80}]});
    let mixed = view(&service, &[slice(&["127.0.0.1", "10.0.0.1", "169.254.169.254", "fe80::1", "::"], 80)]);
    assert_eq!(choose(&mixed, "", 0), given(80, &["10.0.0.1:80"]));
    for (address, port) in [
        ("127.0.0.1", 80),
        ("169.254.1.1", 80),
        ("169.254.169.254", 80),
        ("0.0.0.0", 80),
        ("224.0.0.1", 80),
        ("::1", 80),
        ("::ffff:127.0.0.1", 80),
        ("10.0.0.99", 6443),
    ] {
        let chosen = choose(&view(&service, &[slice(&[address], port)]), "", 0);
        assert!(
            matches!(&chosen, Err(LocateError::Forbidden(message)) if message.contains("must not be reached")),
            "{chosen:?}"
        );
    }
    // Another port of the same host is another server.
    assert_eq!(choose(&view(&service, &[slice(&["10.0.0.99"], 9100)]), "", 0), given(80, &["10.0.0.99:9100"]));
}

#[test]
fn names_and_nonsense_among_the_endpoints_are_left_out() {
    let slice = json!({"addressType": "FQDN", "endpoints": ready(&["example.com", "10.0.0.1x", "10.0.0.2"]), "ports": [{"port": 80}]});
    let empty = json!({"endpoints": [{"addresses": []}, {}], "ports": [{"port": 80}]});
    let wrong = json!({"endpoints": ready(&["10.0.0.3"]), "ports": [{"port": 70000}, {"port": 0}, {"port": -1}]});
    let view = view(&json!({"ports": [{"port": 80}]}), &[slice, empty, wrong]);
    assert_eq!(choose(&view, "", 0), given(80, &["10.0.0.2:80"]));
}
