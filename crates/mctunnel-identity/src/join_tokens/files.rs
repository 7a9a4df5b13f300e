//! Join tokens as files: one each in `<data_dir>/join-tokens`, changed under a lock, read anew whenever asked.

use super::{JoinTokenRecord, JoinTokens, NewJoinToken, TokenGrant, TokenState, TokenUse};
use crate::{
    EnrolError, IdentityError, TokenId, TokenSecret,
    clock::{DAY, SharedClock, SystemClock},
    file_lock,
    private_file::{self, IfExists},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How long a token that has ended is still listed, and its bearer told that it has.
const REMEMBERED: i64 = 7 * DAY;

/// The join tokens in a hub's data directory.
#[derive(Debug, Clone)]
pub struct JoinTokenFiles {
    dir: PathBuf,
    clock: SharedClock,
}

impl JoinTokenFiles {
    /// The tokens in `data_dir`; nothing is read or made yet.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("join-tokens"), clock: Arc::new(SystemClock) }
    }

    /// Takes the time from this clock instead of the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// As [`JoinTokens::list`], without those that cannot be read, and what is wrong with each of these.
    pub fn list_readable(&self) -> Result<(Vec<JoinTokenRecord>, Vec<IdentityError>), IdentityError> {
        let (mut tokens, mut unread) = (Vec::new(), Vec::new());
        for id in self.ids()? {
            match self.token(id) {
                Ok(token) => tokens.extend(token),
                Err(error) => unread.push(error),
            }
        }
        tokens.sort_by_key(|token| (token.created_unix, token.id));
        Ok((tokens, unread))
    }

    /// Changes a token in one step. What `change` refuses changes nothing.
    fn update<T, E: From<IdentityError>>(
        &self,
        id: TokenId,
        unknown: impl FnOnce() -> E,
        change: impl FnOnce(&mut TokenState) -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.dir.is_dir() {
            return Err(unknown());
        }
        let _lock = self.lock()?;
        let Some(mut token) = self.find(id)? else { return Err(unknown()) };
        let changed = change(&mut token)?;
        private_file::write_kept(&self.path(id), &token.to_json(), IfExists::Replace)?;
        Ok(changed)
    }

    fn find(&self, id: TokenId) -> Result<Option<TokenState>, IdentityError> {
        let path = self.path(id);
        let text = match private_file::read(&path, private_file::OTHERS) {
            Ok(text) => text,
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let invalid = |reason| IdentityError::TokenRecordInvalid { path: path.clone(), reason };
        let token = TokenState::parse(&text).map_err(invalid)?;
        if token.record().map_err(invalid)?.id != id {
            return Err(invalid("it is of another token".to_owned()));
        }
        Ok(Some(token))
    }

    fn ids(&self) -> Result<Vec<TokenId>, IdentityError> {
        let unreadable = || IdentityError::file("read", &self.dir);
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable())?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable())?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(TokenId::parse));
        }
        Ok(ids)
    }

    /// A token as lists show it; `None` if it is not there any more.
    fn token(&self, id: TokenId) -> Result<Option<JoinTokenRecord>, IdentityError> {
        let invalid = |reason| IdentityError::TokenRecordInvalid { path: self.path(id), reason };
        self.find(id)?.map(|token| token.record().map_err(invalid)).transpose()
    }

    /// Those that ended long ago go. One that cannot be read stays, and is in nobody's way.
    fn prune(&self, now: i64) -> Result<(), IdentityError> {
        for token in self.list_readable()?.0.iter().filter(|token| token.expires_unix.saturating_add(REMEMBERED) < now)
        {
            let path = self.path(token.id);
            fs::remove_file(&path).map_err(IdentityError::file("remove", &path))?;
        }
        Ok(())
    }

    fn lock(&self) -> Result<fs::File, IdentityError> {
        file_lock::lock(&self.dir.with_extension("lock"))
    }

    /// An id is nothing but hex digits, so it cannot lead anywhere else.
    fn path(&self, id: TokenId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }
}

impl JoinTokens for JoinTokenFiles {
    fn create(&self, new: NewJoinToken) -> Result<(TokenId, TokenSecret), IdentityError> {
        private_file::create_directory_kept(&self.dir)?;
        let _lock = self.lock()?;
        let now = self.clock.unix_now();
        self.prune(now)?;
        let (id, secret) = (TokenId::random()?, TokenSecret::random()?);
        let token = TokenState::new(id, &secret, new, now);
        private_file::write_kept(&self.path(id), &token.to_json(), IfExists::Refuse)?;
        Ok((id, secret))
    }

    fn list(&self) -> Result<Vec<JoinTokenRecord>, IdentityError> {
        let (tokens, unread) = self.list_readable()?;
        unread.into_iter().next().map_or(Ok(tokens), Err)
    }

    fn revoke(&self, id: TokenId) -> Result<(), IdentityError> {
        let revoke = |token: &mut TokenState| {
            token.revoke();
            Ok(())
        };
        self.update(id, || IdentityError::TokenNotThere(id), revoke)
    }

    fn take_use(&self, id: TokenId, secret: &TokenSecret, by: &TokenUse<'_>) -> Result<TokenGrant, EnrolError> {
        let now = self.clock.unix_now();
        self.update(id, || EnrolError::TokenUnknown, |token| token.take_use(secret, by, now))
    }
}
