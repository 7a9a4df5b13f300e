//! The part of CEL that conditions may use, and their types. The engine has no checker of its own; with this one a misspelt variable,
//! a comparison that can never be true, or a loop in a loop is an error when the policy is read, not a surprise when it decides.

use super::variables::{PROTOCOL, TIME, VARIABLES, may_be_absent};
use crate::nearest::suggestion;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

/// The deepest expression, in operators inside each other.
const DEEPEST: usize = 32;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// `true` or `false`.
    Truth,
    /// A whole number.
    Number,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// A list of numbers.
    Numbers,
    /// Texts by name.
    Labels,
    /// Lists of texts by name.
    Lists,
}

impl Type {
    fn told(self) -> &'static str {
        match self {
            Self::Truth => "true or false",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Texts => "a list of texts",
            Self::Numbers => "a list of numbers",
            Self::Labels => "a map of texts",
            Self::Lists => "a map of lists",
        }
    }
}

/// What a condition asks for, of that which others have to know.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reads {
    pub(super) time: bool,
    pub(super) protocol: bool,
}

/// Checks a condition; gives what it asks for.
pub(super) fn check(expression: &IdedExpr) -> Result<Reads, String> {
    let mut checker = Checker { locals: Vec::new(), loops: 0, reads: Reads::default() };
    let of = checker.type_of(expression, 0)?;
    if of != Type::Truth {
        return Err(format!("a condition is true or false, and this is {}", of.told()));
    }
    Ok(checker.reads)
}

struct Checker {
    /// Variables of loops, the innermost last.
    locals: Vec<(String, Type)>,
    loops: usize,
    reads: Reads,
}

type Checked = Result<Type, String>;

impl Checker {
    fn type_of(&mut self, expression: &IdedExpr, depth: usize) -> Checked {
        if depth > DEEPEST {
            return Err(format!("it is more than {DEEPEST} operators deep"));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.of_name(name),
            Expr::Select(select) => self.of_select(select, depth),
            Expr::Call(call) => self.of_call(call, depth),
            Expr::List(list) => {
                let items =
                    list.elements.iter().map(|item| self.type_of(item, depth)).collect::<Result<Vec<_>, _>>()?;
                match items.split_first() {
                    Some((Type::Text, rest)) if rest.iter().all(|item| *item == Type::Text) => Ok(Type::Texts),
                    Some((Type::Number, rest)) if rest.iter().all(|item| *item == Type::Number) => Ok(Type::Numbers),
                    _ => Err("a list has texts or numbers in it, at least one and not both".to_owned()),
                }
            }
            Expr::Comprehension(comprehension) => self.of_loop(comprehension, depth),
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                Err("maps and messages cannot be written here".to_owned())
            }
        }
    }

    fn of_name(&mut self, name: &str) -> Checked {
        let local = self.locals.iter().rev().find(|(own, _)| own == name).map(|(_, of)| *of);
        local.or_else(|| self.of_variable(name)).ok_or_else(|| unknown(name))
    }

    fn of_variable(&mut self, name: &str) -> Option<Type> {
        let (known, of) = VARIABLES.iter().find(|(known, _)| *known == name)?;
        self.reads.time |= known.starts_with(TIME);
        self.reads.protocol |= *known == PROTOCOL;
        Some(*of)
    }

    fn of_select(&mut self, select: &SelectExpr, depth: usize) -> Checked {
        if let Some(name) = dotted(select)
            && let Some(of) = self.of_variable(&name)
        {
            return match select.test {
                false => Ok(of),
                true if may_be_absent(&name) => Ok(Type::Truth),
                true => Err(format!("{name} is always there: has() is for maps, request.* and target.*")),
            };
        }
        if let Expr::Ident(name) = &select.operand.expr
            && !self.is_local(name)
        {
            // Half a variable is not one.
            return Err(unknown(&format!("{name}.{}", select.field)));
        }
        let operand = self.type_of(&select.operand, depth)?;
        match operand {
            Type::Labels | Type::Lists if select.test => Ok(Type::Truth),
            Type::Labels => Ok(Type::Text),
            Type::Lists => Ok(Type::Texts),
            Type::Truth | Type::Number | Type::Text | Type::Texts | Type::Numbers => {
                Err(format!(".{} is asked of {}", select.field, operand.told()))
            }
        }
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|(own, _)| own == name)
    }

    fn of_call(&mut self, call: &CallExpr, depth: usize) -> Checked {
        use Type::{Labels, Lists, Number, Numbers, Text, Texts, Truth};
        let target = call.target.as_ref().map(|target| self.type_of(target, depth)).transpose()?;
        let arguments = call.args.iter().map(|item| self.type_of(item, depth)).collect::<Result<Vec<_>, _>>()?;
        match (call.func_name.as_str(), target, arguments.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [Truth, Truth])
            | (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, None, [Truth])
            | ("startsWith" | "endsWith" | "contains", Some(Text), [Text]) => Ok(Truth),
            (operators::EQUALS | operators::NOT_EQUALS, None, [left, right]) if left == right => Ok(Truth),
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                None,
                [Number, Number] | [Text, Text],
            )
            | (operators::IN, None, [Text, Texts | Labels | Lists] | [Number, Numbers]) => Ok(Truth),
            (operators::CONDITIONAL, None, [Truth, left, right]) if left == right => Ok(*left),
            (operators::INDEX, None, [Labels, Text] | [Texts, Number]) | (operators::ADD, None, [Text, Text]) => {
                Ok(Text)
            }
            (operators::INDEX, None, [Lists, Text]) => Ok(Texts),
            (operators::INDEX, None, [Numbers, Number])
            | (operators::ADD | operators::SUBSTRACT, None, [Number, Number])
            | (operators::NEGATE, None, [Number])
            | ("size", None, [Text | Texts | Numbers | Labels | Lists])
            | ("size", Some(Text | Texts | Numbers | Labels | Lists), []) => Ok(Number),
            (name, ..) => Err(misuse(name, target, &arguments)),
        }
    }

    /// `all`, `exists` and `exists_one`, in the form that the parser gives them.
    fn of_loop(&mut self, comprehension: &ComprehensionExpr, depth: usize) -> Checked {
        let item = match self.type_of(&comprehension.iter_range, depth)? {
            Type::Texts | Type::Labels | Type::Lists => Type::Text,
            Type::Numbers => Type::Number,
            other @ (Type::Truth | Type::Number | Type::Text) => {
                return Err(format!("a loop goes over a list or a map, not over {}", other.told()));
            }
        };
        if self.loops > 0 {
            return Err("a loop inside a loop could take long".to_owned());
        }
        let name = &comprehension.iter_var;
        if comprehension.iter_var2.is_some() || VARIABLES.iter().any(|(known, _)| known.split('.').next() == Some(name))
        {
            return Err(format!("a loop's variable needs another name than {name:?}"));
        }
        // `map` and `filter` gather into an empty list, which has no type here.
        let gathered = self.type_of(&comprehension.accu_init, depth).map_err(|_| LOOPS.to_owned())?;
        self.loops += 1;
        self.locals.push((comprehension.accu_var.clone(), gathered));
        self.locals.push((name.clone(), item));
        let condition = self.type_of(&comprehension.loop_cond, depth)?;
        let step = self.type_of(&comprehension.loop_step, depth)?;
        self.locals.pop();
        let result = self.type_of(&comprehension.result, depth)?;
        self.locals.pop();
        self.loops -= 1;
        if condition == Type::Truth && step == gathered { Ok(result) } else { Err(LOOPS.to_owned()) }
    }
}

const LOOPS: &str = "the loops are all, exists and exists_one";

fn of_literal(literal: &LiteralValue) -> Checked {
    match literal {
        LiteralValue::Boolean(_) => Ok(Type::Truth),
        LiteralValue::Int(_) => Ok(Type::Number),
        LiteralValue::String(_) => Ok(Type::Text),
        LiteralValue::Bytes(_) | LiteralValue::Double(_) | LiteralValue::Null | LiteralValue::UInt(_) => {
            Err("values are texts, whole numbers, true and false".to_owned())
        }
    }
}

/// `a.b.c`, if the expression is nothing but names.
fn dotted(select: &SelectExpr) -> Option<String> {
    let mut parts = vec![select.field.as_str()];
    let mut operand = &select.operand.expr;
    while let Expr::Select(select) = operand
        && !select.test
    {
        parts.push(&select.field);
        operand = &select.operand.expr;
    }
    let Expr::Ident(name) = operand else { return None };
    parts.push(name);
    parts.reverse();
    Some(parts.join("."))
}

fn unknown(name: &str) -> String {
    format!("there is no variable {name:?}{}", suggestion(name, VARIABLES.iter().map(|(known, _)| *known)))
}

fn misuse(name: &str, target: Option<Type>, arguments: &[Type]) -> String {
    let of: Vec<_> = target.iter().chain(arguments).map(|of| of.told()).collect();
    let name = name.trim_matches('_').trim_start_matches('@');
    format!(
        "{name:?} does not work with {}; there are && || ! == != < <= > >= in + - ?: size startsWith endsWith contains",
        of.join(" and ")
    )
}
