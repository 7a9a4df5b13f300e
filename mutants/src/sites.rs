//! Finds where code can be broken: walks the syntax tree of a file, outer places first.

#![expect(clippy::wildcard_enum_match_arm, reason = "the syntax has more kinds of things than are broken here")]

mod function;
mod swaps;

use crate::{
    mutant::Mutant,
    render::{Form, Site},
};
use proc_macro2::Span;
use std::{collections::BTreeSet, ops::Range};
use syn::{
    Arm, Attribute, BinOp, Expr, ExprMatch, ImplItemFn, Item, ItemFn, ItemImpl, Lit, Pat, Stmt,
    spanned::Spanned,
    visit::{self, Visit},
};

/// The places of a file, and the changes that belong to them.
pub(crate) fn find(file: &str, text: &str, first_id: usize) -> syn::Result<(Vec<Site>, Vec<Mutant>)> {
    let tree = syn::parse_file(text)?;
    let mut finder = Finder {
        file,
        text,
        first_id,
        sites: Vec::new(),
        mutants: Vec::new(),
        owner: String::new(),
        function: String::new(),
        in_constants: Called::in_constants(&tree),
    };
    finder.visit_file(&tree);
    Ok((finder.sites, finder.mutants))
}

struct Finder<'t> {
    file: &'t str,
    text: &'t str,
    first_id: usize,
    sites: Vec<Site>,
    mutants: Vec<Mutant>,
    /// The type whose functions are being read.
    owner: String,
    function: String,
    /// Functions that have to stay constant.
    in_constants: BTreeSet<String>,
}

/// Collects the names of the functions that constants call.
#[derive(Default)]
struct Called {
    names: BTreeSet<String>,
    is_constant: bool,
}

impl Called {
    fn in_constants(tree: &syn::File) -> BTreeSet<String> {
        let mut called = Self::default();
        called.visit_file(tree);
        called.names
    }
}

impl<'ast> Visit<'ast> for Called {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.is_constant = true;
        visit::visit_item_const(self, item);
        self.is_constant = false;
    }

    fn visit_expr_call(&mut self, expr: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*expr.func
            && let Some(name) = function.path.get_ident().filter(|_| self.is_constant)
        {
            self.names.insert(name.to_string());
        }
        visit::visit_expr_call(self, expr);
    }
}

impl Finder<'_> {
    fn text_of(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    /// Notes a change; gives its number.
    fn note(&mut self, at: Span, change: String) -> usize {
        let id = self.first_id + self.mutants.len();
        let function = match self.owner.as_str() {
            "" => self.function.clone(),
            owner => format!("{owner}::{}", self.function),
        };
        let same = |change: &str| {
            let all = self.mutants.iter().filter(|other| other.function == function);
            all.filter(|other| other.change == change || other.change.starts_with(&format!("{change} #"))).count()
        };
        let change = match same(&change) {
            0 => change,
            before => format!("{change} #{}", before + 1),
        };
        self.mutants.push(Mutant { id, file: self.file.to_owned(), line: at.start().line, function, change });
        id
    }

    /// The text at a place, on one line and not too long.
    fn shown(&self, at: Span) -> String {
        let text = self.text_of(at.byte_range()).split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(60) {
            Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    fn place(&mut self, range: Range<usize>, form: Form) {
        self.sites.push(Site { inner: range.clone(), range, form });
    }

    /// A place where something else can stand instead.
    fn replace(&mut self, at: Span, alternatives: Vec<(String, String)>) {
        let alternatives = alternatives.into_iter().map(|(change, text)| (self.note(at, change), text)).collect();
        self.place(at.byte_range(), Form::Choice(alternatives));
    }

    /// A place that is true or false.
    fn condition(&mut self, at: Span, can_be_true: bool) {
        let shown = self.shown(at);
        let is_true = can_be_true.then(|| self.note(at, format!("true instead of: {shown}")));
        let is_false = self.note(at, format!("false instead of: {shown}"));
        self.place(at.byte_range(), Form::Condition { is_true, is_false });
    }

    /// The parts of a condition that are joined by `&&` around a `let`; the whole, if there is none.
    fn conditions(&mut self, expr: &Expr, can_be_true: bool) {
        match expr {
            Expr::Let(_) => {}
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) && has_let(expr) => {
                self.conditions(&binary.left, can_be_true);
                self.conditions(&binary.right, can_be_true);
            }
            expr => self.condition(expr.span(), can_be_true),
        }
    }

    fn guards(&mut self, expr: &ExprMatch) {
        let is_caught = |arm: &Arm| arm.guard.is_none() && takes_all(&arm.pat);
        let Some(last) = expr.arms.iter().position(is_caught) else { return };
        for arm in expr.arms.iter().take(last) {
            match (&arm.pat, &arm.guard) {
                (Pat::Or(or), None) => {
                    let shown: Vec<_> = or.cases.iter().map(|case| (case.span(), self.shown(case.span()))).collect();
                    let cases = shown
                        .into_iter()
                        .map(|(at, shown)| (self.note(at, format!("without the case: {shown}")), at.byte_range()));
                    let cases = cases.collect();
                    let inner = arm.pat.span().byte_range().end..arm.span().byte_range().end;
                    let form = Form::Cases { cases, needs_comma: arm.comma.is_none() };
                    self.sites.push(Site { range: arm.span().byte_range(), inner, form });
                }
                (pat, guard) => {
                    let shown = self.shown(pat.span());
                    let id = self.note(pat.span(), format!("without the case: {shown}"));
                    match guard {
                        Some((_, guard)) => {
                            self.place(guard.span().byte_range(), Form::Condition { is_true: None, is_false: id });
                        }
                        None => {
                            let end = pat.span().byte_range().end;
                            self.place(end..end, Form::Guard(id));
                        }
                    }
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let skipped = match item {
            Item::Mod(own) => is_for_tests(&own.attrs),
            Item::Fn(own) => is_for_tests(&own.attrs),
            Item::Impl(own) => is_for_tests(&own.attrs) || is_debug(own),
            // What is constant cannot be switched.
            Item::Const(_) | Item::Static(_) | Item::Macro(_) | Item::Enum(_) | Item::Struct(_) | Item::Type(_) => true,
            _ => false,
        };
        if !skipped {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let own = self.shown(item.self_ty.span());
        self.owner = match &item.trait_ {
            Some((_, path, _)) => format!("<{own} as {}>", self.shown(path.span())),
            None => own,
        };
        visit::visit_item_impl(self, item);
        self.owner.clear();
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if item.sig.constness.is_some() && self.in_constants.contains(&item.sig.ident.to_string()) {
            return;
        }
        self.enter(&item.sig, &item.block);
        visit::visit_block(self, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.enter(&item.sig, &item.block);
            visit::visit_block(self, &item.block);
        }
    }

    // Types, patterns and constants have nothing that can be switched.
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.conditions(guard, true);
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt
            && matches!(expr, Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Try(_))
        {
            let shown = self.shown(stmt.span());
            let id = self.note(stmt.span(), format!("without: {shown}"));
            self.place(stmt.span().byte_range(), Form::Leave(id));
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::If(own) => self.conditions(&own.cond, true),
            Expr::While(own) => self.conditions(&own.cond, false),
            Expr::Match(own) => self.guards(own),
            Expr::Binary(own) => self.binary(own),
            Expr::MethodCall(own) => self.method(own),
            Expr::Unary(own) if matches!(own.op, syn::UnOp::Not(_)) => {
                let (shown, inner) = (self.shown(own.span()), own.expr.span().byte_range());
                let inner = self.text_of(inner).to_owned();
                self.replace(own.span(), vec![(format!("without the !: {shown}"), inner)]);
            }
            Expr::Macro(own) if own.mac.path.is_ident("matches") => self.matches(own),
            Expr::Lit(own) => match &own.lit {
                Lit::Bool(bool) => {
                    let id = self.note(own.span(), format!("{} instead of: {}", !bool.value, bool.value));
                    self.place(own.span().byte_range(), Form::Flip(id));
                }
                Lit::Int(int) => {
                    let text = self.text_of(int.span().byte_range()).to_owned();
                    self.replace(own.span(), vec![(format!("one more: {text}"), format!("{text} + 1"))]);
                }
                _ => {}
            },
            _ => {}
        }
        visit::visit_expr(self, expr);
    }
}

/// Whether a pattern has every value. One word in capitals is a value of its own, such as `None`.
fn takes_all(pat: &Pat) -> bool {
    match pat {
        Pat::Wild(_) => true,
        Pat::Ident(own) => {
            own.subpat.is_none() && own.ident.to_string().starts_with(|letter: char| letter.is_lowercase())
        }
        _ => false,
    }
}

/// Whether a condition has a `let` in its chain.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test");
        is_cfg_test || attribute.path().is_ident("test")
    })
}

/// What is printed for developers alone decides nothing.
fn is_debug(item: &ItemImpl) -> bool {
    let last = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
    last.is_some_and(|segment| segment.ident == "Debug")
}
