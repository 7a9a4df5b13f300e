//! The examples of the help: each can be typed as it stands.

use super::*;
use crate::settings::{AgentSettings, HubSettings};
use clap::CommandFactory;

/// The lines of help that begin with the program's name, of this command and all below it.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let own = help.lines().filter(|line| line.starts_with("  mctunnel ")).map(str::to_owned);
    own.chain(command.get_subcommands().flat_map(examples)).collect()
}

/// The words of a line as a shell reads them, up to where the output goes, or to what is said about it.
fn words(line: &str) -> Vec<String> {
    let mut letters = line.trim().chars().peekable();
    let mut words = vec![String::new()];
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted && letters.peek() == Some(&' ') => break,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.into_iter().take_while(|word| word != ">" && word != "|").collect()
}

#[test]
fn every_example_can_be_typed_as_it_stands() {
    let examples = examples(&Cli::command());
    assert!(examples.len() > 40, "{examples:#?}");
    for example in examples {
        // A hash is shown by its beginning.
        let words = words(&example.replace(":3c9f...", &format!(":{}", "3c9f".repeat(16))));
        let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{example}: {error}"));
        // A file that is named may not be here.
        if !words.iter().any(|word| word == "--config") {
            would_start(cli.command).unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }
}

/// A role has more to say than clap: what its settings mean together.
fn would_start(command: Command) -> anyhow::Result<()> {
    if let Command::Hub(flags) = command {
        HubSettings::read(&flags.load([])?)?.1.asks_clients()?;
    } else if let Command::Agent(flags) = command {
        AgentSettings::read(&flags.load([])?)?;
    }
    Ok(())
}

#[test]
fn words_are_read_as_a_shell_does() {
    assert_eq!(words("  mctunnel a 'b c' > file"), ["mctunnel", "a", "b c"]);
    assert_eq!(words("  mctunnel demo      what it shows"), ["mctunnel", "demo"]);
}
