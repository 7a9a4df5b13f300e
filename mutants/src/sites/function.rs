//! A function that does nothing, and gives the simplest answer of its type.

use super::Finder;
use crate::render::Form;
use syn::{Block, GenericArgument, PathArguments, ReturnType, Signature, Type, spanned::Spanned};

impl Finder<'_> {
    /// Notes which function follows, and what it could answer without looking.
    pub(super) fn enter(&mut self, signature: &Signature, block: &Block) {
        self.function = signature.ident.to_string();
        if let Some(constant) = &signature.constness {
            // What asks for a switch cannot be constant.
            self.place(constant.span().byte_range(), Form::Remove);
        }
        let answers = match &signature.output {
            ReturnType::Default => vec![String::new()],
            ReturnType::Type(_, own) => answers(own),
        };
        let answers: Vec<(usize, String)> = answers
            .into_iter()
            .map(|answer| {
                let shown = if answer.is_empty() { "nothing" } else { &answer };
                (self.note(signature.ident.span(), format!("gives {shown} at once")), answer)
            })
            .collect();
        let start = block.brace_token.span.open().byte_range().end;
        self.place(start..start, Form::Return(answers));
    }
}

/// The simplest values of a type.
fn answers(own: &Type) -> Vec<String> {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    match own {
        Type::Tuple(tuple) if tuple.elems.is_empty() => texts(&[""]),
        Type::Reference(reference) if is_path(&reference.elem, "str") => texts(&["\"\"", "\"xyzzy\""]),
        Type::Path(path) => {
            let Some(segment) = path.path.segments.last() else { return Vec::new() };
            let inside = first_argument(&segment.arguments);
            match (segment.ident.to_string().as_str(), inside) {
                ("bool", _) => texts(&["true", "false"]),
                ("String", _) => texts(&["String::new()", "\"xyzzy\".to_owned()"]),
                ("Vec", _) => texts(&["Vec::new()"]),
                ("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64", _) => texts(&["0", "1"]),
                ("Option", Some(inside)) => {
                    let mut all = texts(&["None"]);
                    all.extend(
                        answers(inside).into_iter().filter(|text| !text.is_empty()).map(|text| format!("Some({text})")),
                    );
                    all
                }
                ("Result", Some(Type::Tuple(tuple))) if tuple.elems.is_empty() => texts(&["Ok(())"]),
                ("Result", Some(inside)) => answers(inside).into_iter().map(|text| format!("Ok({text})")).collect(),
                ("Self", _) => Vec::new(),
                _ => texts(&["Default::default()"]),
            }
        }
        Type::Tuple(_) => texts(&["Default::default()"]),
        _ => Vec::new(),
    }
}

fn is_path(own: &Type, name: &str) -> bool {
    matches!(own, Type::Path(path) if path.path.is_ident(name))
}

fn first_argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(own) => Some(own),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_the_type() {
        for (own, expected) in [
            ("bool", &["true", "false"][..]),
            ("Result<(), String>", &["Ok(())"]),
            ("Result<Option<u16>, String>", &["Ok(None)", "Ok(Some(0))", "Ok(Some(1))"]),
            ("&'a str", &["\"\"", "\"xyzzy\""]),
            ("Option<&str>", &["None", "Some(\"\")", "Some(\"xyzzy\")"]),
            ("impl Iterator<Item = u8>", &[]),
            ("Target", &["Default::default()"]),
        ] {
            assert_eq!(answers(&syn::parse_str(own).unwrap()), expected, "{own}");
        }
    }
}
