//! Conditions in CEL: the one module that knows the engine. Operators write expressions, clients only choose the values in them; ADR
//! 0010 says what is checked before an expression is taken, and why.

mod subset;
#[cfg(test)]
mod tests;
mod variables;

use crate::circumstance::facts::Facts;
use cel::{Context, Env, IdedExpr, Value, common::types::CelBool};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    thread,
};
use subset::Reads;
use variables::Variables;

/// The longest expression.
const LONGEST: usize = 1024;
/// The most brackets inside each other, and the most `?` behind each other: the engine's parser goes deep for each.
const DEEPEST: usize = 16;
/// For the parser, which goes deep for long chains as well. Only what is used is ever real memory.
const PARSER_STACK: usize = 64 << 20;

/// A condition that was checked and can be asked.
#[derive(Debug)]
pub(crate) struct Condition {
    text: Box<str>,
    expression: IdedExpr,
    reads: Reads,
}

impl Condition {
    /// Whether it holds. Never panics, never waits; the time it takes is bounded by its length and by the user's groups.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Result<bool, ConditionError> {
        let evaluated = catch_unwind(AssertUnwindSafe(|| {
            let variables = Variables(facts);
            let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
            context.set_variable_resolver(&variables);
            let value = Value::resolve_val(&self.expression, &context);
            let value = value.map_err(|error| ConditionError::Failed(error.to_string()))?;
            value.downcast_ref::<CelBool>().map(|value| *value.inner()).ok_or(ConditionError::NotBoolean)
        }));
        evaluated.unwrap_or(Err(ConditionError::Broken))
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it asks for the time.
    pub(crate) fn reads_time(&self) -> bool {
        self.reads.time
    }

    /// Whether it asks for the protocol.
    pub(crate) fn reads_protocol(&self) -> bool {
        self.reads.protocol
    }

    fn compile(text: &str) -> Result<Self, String> {
        check_length(text)?;
        let parser = ENVIRONMENT.parser().enable_optional_syntax(false).max_recursion_depth(48).error_recovery_limit(1);
        let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text)));
        let expression = match parsed {
            Ok(Ok(expression)) => expression,
            Ok(Err(errors)) => return Err(first_line(&errors.to_string())),
            Err(_) => return Err("the parser of conditions broke on it".to_owned()),
        };
        let reads = subset::check(&expression)?;
        Ok(Self { text: text.into(), expression, reads })
    }
}

/// Functions and macros of conditions; which of them may be used is in `subset`.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A condition did not come to an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConditionError {
    /// A key that is not there, most often.
    #[error("{0}")]
    Failed(String),
    #[error("it is neither true nor false")]
    NotBoolean,
    #[error("the engine broke")]
    Broken,
}

/// Refuses what could overflow the parser's stack, before it is parsed. Brackets in strings count too.
fn check_length(text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let mut depth = 0_usize;
    let mut questions = 0_usize;
    for letter in text.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '?' => questions += 1,
            _ => {}
        }
        if depth > DEEPEST || questions > DEEPEST {
            return Err(format!("it has more than {DEEPEST} brackets inside each other, or more than {DEEPEST} '?'"));
        }
    }
    Ok(())
}

/// The parser draws its errors over several lines.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("ERROR: <input>:").to_owned()
}

// === Conditions ===

/// The conditions of a policy, each of them compiled once.
#[derive(Debug, Default)]
pub(crate) struct Conditions(BTreeMap<Box<str>, Result<Arc<Condition>, String>>);

impl Conditions {
    /// Compiles all of them on a thread with a large stack.
    pub(crate) fn compile<S: AsRef<str>>(texts: impl Iterator<Item = S>) -> Self {
        let mut conditions: BTreeMap<Box<str>, Result<Arc<Condition>, String>> =
            texts.map(|text| (text.as_ref().into(), Err("it was not compiled".to_owned()))).collect();
        if conditions.is_empty() {
            return Self::default();
        }
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("conditions".to_owned()).stack_size(PARSER_STACK);
            let compiling = builder.spawn_scoped(scope, || {
                for (text, condition) in &mut conditions {
                    *condition = Condition::compile(text).map(Arc::new);
                }
            });
            // Without the thread, or if it ends early, what it did not compile stays an error.
            if let Ok(compiling) = compiling {
                let _ = compiling.join();
            }
        });
        Self(conditions)
    }

    /// A condition that was among those to compile.
    pub(crate) fn compiled(&self, text: &str) -> Result<Arc<Condition>, String> {
        self.0.get(text).cloned().unwrap_or_else(|| Err("it was not compiled".to_owned()))
    }
}
