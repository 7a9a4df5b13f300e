//! The messages as we write them against `enrol.proto` itself.

use mctunnel_identity::enrolment::wire::{
    self, EnrolRequest, Evidence, IssuedCertificate, JoinTokenProof, RenewRequest, ServiceAccountToken,
};
use protox::prost_reflect::{DescriptorPool, DynamicMessage, Value};

fn read(kind: &str, bytes: &[u8]) -> DynamicMessage {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let files = protox::compile(["mctunnel/enrol/v1/enrol.proto"], [proto]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let service = pool.get_service_by_name("mctunnel.enrol.v1.EnrolService").unwrap();
    let paths: Vec<_> = service.methods().map(|method| format!("/{}/{}", service.full_name(), method.name())).collect();
    assert_eq!(paths, [wire::ENROL_PATH, wire::RENEW_PATH]);
    let descriptor = pool.get_message_by_name(&format!("mctunnel.enrol.v1.{kind}")).unwrap();
    let message = DynamicMessage::decode(descriptor, bytes).unwrap();
    assert_eq!(message.unknown_fields().count(), 0, "{kind} has a field that the contract does not know");
    message
}

fn bytes(text: &'static [u8]) -> Value {
    Value::Bytes(text.into())
}

fn field(message: &DynamicMessage, name: &str) -> Value {
    message.get_field_by_name(name).unwrap().into_owned()
}

#[test]
fn what_we_write_is_what_the_contract_says() {
    let proof = JoinTokenProof { id: b"id".to_vec(), secret: b"secret".to_vec() };
    let request =
        EnrolRequest { csr: b"csr".to_vec(), lifetime_seconds: 7, evidence: Some(Evidence::JoinToken(proof)) };
    let message = read("EnrolRequest", &wire::encode(&request));
    assert_eq!((field(&message, "csr"), field(&message, "lifetime_seconds")), (bytes(b"csr"), Value::U64(7)));
    let Value::Message(token) = field(&message, "join_token") else { panic!("{message:?}") };
    assert_eq!((field(&token, "id"), field(&token, "secret")), (bytes(b"id"), bytes(b"secret")));
    assert_eq!(wire::decode::<EnrolRequest>(&wire::encode(&request)).unwrap(), request);

    let account = Some(Evidence::ServiceAccountToken(ServiceAccountToken { token: "t".to_owned() }));
    let message = read("EnrolRequest", &wire::encode(&EnrolRequest { evidence: account, ..request }));
    let Value::Message(account) = field(&message, "service_account_token") else { panic!("{message:?}") };
    assert_eq!(field(&account, "token"), Value::String("t".to_owned()));

    let message = read("RenewRequest", &wire::encode(&RenewRequest { csr: b"csr".to_vec(), lifetime_seconds: 7 }));
    assert_eq!((field(&message, "csr"), field(&message, "lifetime_seconds")), (bytes(b"csr"), Value::U64(7)));

    let issued = IssuedCertificate {
        certificate: b"c".to_vec(),
        authorities: vec![b"a".to_vec(), b"b".to_vec()],
        lifetime_seconds: 7,
    };
    let message = read("IssuedCertificate", &wire::encode(&issued));
    assert_eq!((field(&message, "certificate"), field(&message, "lifetime_seconds")), (bytes(b"c"), Value::U64(7)));
    assert_eq!(field(&message, "authorities"), Value::List(vec![bytes(b"a"), bytes(b"b")]));
}
