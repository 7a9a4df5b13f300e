//! Methods of the four kinds, made from functions.

use super::{Answer, Notes};
use crate::note::Note;
use tonic::{
    Request, Streaming,
    server::{ClientStreamingService, ServerStreamingService, StreamingService, UnaryService},
};

/// A method made from a function.
pub(super) struct By<F>(pub(super) F);

impl<F, A> UnaryService<Note> for By<F>
where
    F: FnMut(Request<Note>) -> A,
    A: Future<Output = Answer<Note>>,
{
    type Response = Note;
    type Future = A;

    fn call(&mut self, request: Request<Note>) -> A {
        (self.0)(request)
    }
}

impl<F, A> ClientStreamingService<Note> for By<F>
where
    F: FnMut(Request<Streaming<Note>>) -> A,
    A: Future<Output = Answer<Note>>,
{
    type Response = Note;
    type Future = A;

    fn call(&mut self, request: Request<Streaming<Note>>) -> A {
        (self.0)(request)
    }
}

impl<F, A> ServerStreamingService<Note> for By<F>
where
    F: FnMut(Request<Note>) -> A,
    A: Future<Output = Answer<Notes>>,
{
    type Response = Note;
    type ResponseStream = Notes;
    type Future = A;

    fn call(&mut self, request: Request<Note>) -> A {
        (self.0)(request)
    }
}

impl<F, A> StreamingService<Note> for By<F>
where
    F: FnMut(Request<Streaming<Note>>) -> A,
    A: Future<Output = Answer<Notes>>,
{
    type Response = Note;
    type ResponseStream = Notes;
    type Future = A;

    fn call(&mut self, request: Request<Streaming<Note>>) -> A {
        (self.0)(request)
    }
}
