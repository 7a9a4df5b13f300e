//! A resolver that knows what it was told, and remembers what it was asked.

use mctunnel_kube::{Resolve, Resolving};
use parking_lot::Mutex;
use std::{collections::BTreeMap, io, net::IpAddr, sync::Arc};

#[derive(Default)]
pub(crate) struct FakeNames {
    names: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl FakeNames {
    pub(crate) fn of(names: &[(&str, &[&str])]) -> Arc<Self> {
        let fake = Arc::new(Self::default());
        for (name, addresses) in names {
            fake.set(name, addresses);
        }
        fake
    }

    pub(crate) fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.names.lock().insert(name.to_owned(), addresses);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Resolve for FakeNames {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.asked.lock().push(name.to_owned());
        let answer = self.names.lock().get(name).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("Name or service not known")) })
    }
}
