//! Users as an OPEN carries them, made once for a user that authentication remembers and not for each of its requests: with many
//! groups that costs more than all else of an open.

use mctunnel_core::User;
use mctunnel_tunnel::OpenUser;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// What was made for users that are still known to somebody, and for some that are not any more.
#[derive(Debug, Default)]
pub(crate) struct OpenUsers {
    /// By where the user is in memory. Nothing else gets there, because the weak reference holds the place; and nobody can change a
    /// user to whom there is one.
    made: Mutex<BTreeMap<usize, Made>>,
}

/// One user, as it is known here and as it travels.
type Made = (Weak<User>, Arc<OpenUser>);

/// More are not kept: it is begun anew with those still known to somebody, or with none.
const MOST: usize = 4096;

impl OpenUsers {
    pub(crate) fn of(&self, user: &Arc<User>) -> Arc<OpenUser> {
        let place = Arc::as_ptr(user).addr();
        let mut made = self.made.lock();
        if let Some((_, open_user)) = made.get(&place) {
            return Arc::clone(open_user);
        }
        if made.len() >= MOST {
            made.retain(|_, (user, _)| user.strong_count() > 0);
            if made.len() > MOST / 2 {
                made.clear();
            }
        }
        let open_user = Arc::new(OpenUser::new(on_the_wire(user)));
        made.insert(place, (Arc::downgrade(user), Arc::clone(&open_user)));
        open_user
    }
}

/// Provider, credential and expiry are the hub's business.
fn on_the_wire(user: &User) -> mctunnel_tunnel::User {
    mctunnel_tunnel::User {
        name: Arc::clone(&user.name),
        groups: user.groups.clone(),
        uid: user.uid.clone().unwrap_or_default(),
        extra: user.extra.iter().map(|(key, values)| (key.clone(), values.clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User::new(name, "test"))
    }

    #[test]
    fn a_user_is_made_once_and_one_like_it_anew() {
        let users = OpenUsers::default();
        let (alice, another) = (user("alice"), user("alice"));
        assert!(Arc::ptr_eq(&users.of(&alice), &users.of(&alice)));
        assert!(!Arc::ptr_eq(&users.of(&alice), &users.of(&another)));
    }

    #[test]
    fn nobody_is_taken_for_a_user_who_was_there_before() {
        let users = OpenUsers::default();
        for turn in 0..MOST * 3 {
            let name = format!("user-{turn}");
            // Each is gone before the next one comes, so that its place would be free.
            assert_eq!(*users.of(&user(&name)).name, name);
            assert!(users.made.lock().len() <= MOST);
        }
    }

    #[test]
    fn who_is_still_known_is_kept_when_others_make_room() {
        let users = OpenUsers::default();
        let alice = user("alice");
        let first = users.of(&alice);
        (0..MOST).for_each(|turn| drop(users.of(&user(&format!("user-{turn}")))));
        assert!(Arc::ptr_eq(&first, &users.of(&alice)));
    }

    #[test]
    fn a_user_that_is_changed_is_another_one() {
        let users = OpenUsers::default();
        let mut alice = user("alice");
        users.of(&alice);
        Arc::make_mut(&mut alice).groups.push("admins".into());
        assert_eq!(users.of(&alice).groups, ["admins".into()]);
    }
}
