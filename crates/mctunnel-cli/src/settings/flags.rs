//! The flags of a role for clap, made from the table, and the way from them to the settings in effect.

use super::{
    ConfigError,
    effective::Effective,
    source::Source,
    table::{Role, Setting, Shape},
};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::{ffi::OsString, fs, marker::PhantomData, path::PathBuf};

/// What was given on the command line to a role.
#[derive(Debug)]
pub(crate) struct Flags<R> {
    source: Source,
    role: PhantomData<R>,
}

impl<R: Role> Flags<R> {
    /// Reads the environment and the file, if one is named, and merges all.
    pub(crate) fn load(
        self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Effective, ConfigError> {
        let environment = Source::environment(R::SETTINGS, variables)?;
        let named = self.source.values.get("config").or_else(|| environment.values.get("config"));
        let file = match named.and_then(|value| value.texts.first()) {
            Some(path) => read_file::<R>(path.into())?,
            None => Source::default(),
        };
        Ok(Effective::merge(R::SETTINGS, [Source::defaults(R::SETTINGS), file, environment, self.source]))
    }
}

fn read_file<R: Role>(path: PathBuf) -> Result<Source, ConfigError> {
    match fs::read_to_string(&path) {
        Ok(text) => Source::file(R::SETTINGS, &path, &text),
        Err(source) => Err(ConfigError::FileUnreadable { path, source }),
    }
}

impl<R: Role> Args for Flags<R> {
    fn augment_args(command: Command) -> Command {
        let settings = R::SETTINGS.iter().copied().flatten().filter(|setting| setting.is_flag());
        settings.fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<R: Role> FromArgMatches for Flags<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { source: Source::flags(R::SETTINGS, matches), role: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(setting: &Setting) -> Arg {
    let mut help = setting.help.to_owned();
    if let (Some(default), true) = (setting.default, setting.shape != Shape::Switch) {
        help.push_str(&format!(" [default: {default}]"));
    }
    if setting.is_variable() {
        help.push_str(&format!(" [env: {}]", setting.variable()));
    }
    let arg = Arg::new(setting.key).long(setting.key.replace('_', "-")).help(help);
    match setting.shape {
        // Given twice, the last counts: so a script can add to flags it did not write.
        Shape::One => arg.value_name(setting.value).action(ArgAction::Set).overrides_with(setting.key),
        Shape::Many => arg.value_name(setting.value).action(ArgAction::Append),
        Shape::Switch => arg.action(ArgAction::SetTrue).overrides_with(setting.key),
    }
}
