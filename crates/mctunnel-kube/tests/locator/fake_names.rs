//! A resolver that knows what it was told, and remembers what it was asked.

use mctunnel_kube::{Resolve, Resolving, ResolvingOwn};
use parking_lot::Mutex;
use std::{collections::BTreeMap, io, net::IpAddr, sync::Arc};

#[derive(Default)]
pub(crate) struct FakeNames {
    names: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    /// Names that stand for others.
    aliases: Mutex<BTreeMap<String, String>>,
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

    pub(crate) fn alias(&self, name: &str, of: &str) {
        self.aliases.lock().insert(name.to_owned(), of.to_owned());
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Resolve for FakeNames {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.asked.lock().push(name.to_owned());
        let name = self.aliases.lock().get(name).cloned().unwrap_or_else(|| name.to_owned());
        let answer = self.names.lock().get(&name).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("Name or service not known")) })
    }

    fn resolve_own<'a>(&'a self, name: &'a str) -> ResolvingOwn<'a> {
        let is_alias = self.aliases.lock().contains_key(name);
        let answer = self.resolve(name);
        Box::pin(async move { answer.await.map(|addresses| (!is_alias).then_some(addresses)) })
    }
}
