//! Operators and calls that have a twin of the same type, and other meaning.

use super::{Finder, has_let};
use crate::render::Form;
use syn::{BinOp, Expr, ExprBinary, ExprMacro, ExprMethodCall, Lit, Pat, parse::Parser, spanned::Spanned};

/// Methods that compile in place of each other.
const METHODS: [(&str, &str); 6] = [
    ("any", "all"),
    ("is_some_and", "is_none_or"),
    ("is_some", "is_none"),
    ("min", "max"),
    ("starts_with", "ends_with"),
    ("is_ok", "is_err"),
];
/// Methods that look for the text they are given.
const SEARCHES: [&str; 8] = [
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "split_once",
    "rsplit_once",
    "contains",
    "eq_ignore_ascii_case",
];

impl Finder<'_> {
    pub(super) fn binary(&mut self, expr: &ExprBinary) {
        let others: &[&str] = match &expr.op {
            BinOp::Eq(_) => &["!="],
            BinOp::Ne(_) => &["=="],
            BinOp::Lt(_) => &["<=", ">"],
            BinOp::Le(_) => &["<", ">"],
            BinOp::Gt(_) => &[">=", "<"],
            BinOp::Ge(_) => &[">", "<"],
            BinOp::And(_) if !has_let(&expr.left) && !has_let(&expr.right) => &["||"],
            BinOp::Or(_) => &["&&"],
            BinOp::Add(_) => &["-"],
            BinOp::Sub(_) => &["+"],
            BinOp::Mul(_) | BinOp::Div(_) => &["+"],
            BinOp::Rem(_) => &["/"],
            BinOp::AddAssign(_) => &["-="],
            BinOp::SubAssign(_) => &["+="],
            BinOp::BitAnd(_) => &["|"],
            BinOp::Shl(_) => &[">>"],
            _ => &[],
        };
        let text = |at: &Expr| self.text_of(at.span().byte_range()).to_owned();
        let (left, right) = (text(&expr.left), text(&expr.right));
        let own = self.text_of(expr.op.span().byte_range()).to_owned();
        let shown = self.shown(expr.span());
        let alternatives: Vec<_> = others
            .iter()
            .map(|other| (format!("{other} instead of {own}: {shown}"), format!("({left}) {other} ({right})")))
            // What is assigned to stands without brackets.
            .map(|(change, code)| {
                if own.ends_with('=') && own.len() == 2 && !"==!=<=>=".contains(&own) {
                    (change, format!("{left} {} {right}", others.first().copied().unwrap_or_default()))
                } else {
                    (change, code)
                }
            })
            .collect();
        if !alternatives.is_empty() {
            self.replace(expr.span(), alternatives);
        }
    }

    pub(super) fn method(&mut self, expr: &ExprMethodCall) {
        let name = expr.method.to_string();
        let twin = METHODS.iter().find_map(|(one, other)| match name.as_str() {
            own if own == *one => Some(*other),
            own if own == *other => Some(*one),
            _ => None,
        });
        if let Some(twin) = twin {
            let (whole, at) = (expr.span().byte_range(), expr.method.span().byte_range());
            let (front, back) = (self.text_of(whole.start..at.start), self.text_of(at.end..whole.end));
            let code = format!("{front}{twin}{back}");
            let change = format!("{twin} instead of {name}: {}", self.shown(expr.span()));
            self.replace(expr.span(), vec![(change, code)]);
        }
        if SEARCHES.contains(&name.as_str()) {
            for argument in &expr.args {
                match argument {
                    Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)) => {
                        let change = format!("another text: {}", self.shown(literal.span()));
                        self.replace(literal.span(), vec![(change, "\"\\u{1}xyzzy\"".to_owned())]);
                    }
                    Expr::Lit(literal) if matches!(literal.lit, Lit::Char(_)) => {
                        let change = format!("another letter: {}", self.shown(literal.span()));
                        self.replace(literal.span(), vec![(change, "'\\u{1}'".to_owned())]);
                    }
                    _ => {}
                }
            }
        }
    }

    /// `matches!`: always, never, and without each of its cases.
    pub(super) fn matches(&mut self, expr: &ExprMacro) {
        self.condition(expr.span(), true);
        let parse = |input: syn::parse::ParseStream<'_>| {
            let scrutinee: Expr = input.parse()?;
            input.parse::<syn::Token![,]>()?;
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            // A guard, if there is one.
            input.parse::<proc_macro2::TokenStream>()?;
            Ok((scrutinee, pattern))
        };
        let Ok((scrutinee, Pat::Or(or))) = parse.parse2(expr.mac.tokens.clone()) else { return };
        let scrutinee = self.text_of(scrutinee.span().byte_range()).to_owned();
        let mut cases = Vec::new();
        for case in &or.cases {
            let text = self.text_of(case.span().byte_range()).to_owned();
            let id = self.note(case.span(), format!("without the case: {text}"));
            cases.push((id, format!("matches!({scrutinee}, {text})")));
        }
        self.place(expr.span().byte_range(), Form::Except(cases));
    }
}
