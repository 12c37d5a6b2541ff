//! Debugging, both ways: a machine under gdb, whose time goes forward and back, and across power cuts.
//!
//! [`head`] is a machine that is driven, and counts; [`life`] keeps copies of one along its time;
//! [`session`] is a time line of lives and the position on it; [`forward`], [`backward`] and [`cut`] move
//! that, and [`watched`] says where a watch point stops it; [`view`] is what is seen there; [`monitor`] and
//! [`memory_commands`] answer what gdb does not know to ask; [`remote`] speaks gdb's protocol and [`server`]
//! has the socket. The engine is [`crate::stepping`].
//!
//! Always true: the run that is debugged is the run that nobody debugs, cycle by cycle.

mod backward;
mod cut;
mod debuggee;
mod forward;
mod head;
mod life;
mod memory_commands;
mod monitor;
mod output;
mod remote;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod view;
mod watched;

use serde_json::{Value, json};

use crate::error::Error;
use crate::observer::Observer;
use crate::request::Prepared;

pub(crate) use life::Cut;
use output::Printer;
use session::Session;

/// How to debug.
pub(crate) struct Options<'a> {
    /// `HOST:PORT` or the path of a socket.
    pub listen: &'a str,
    /// Cuts of the first life, of the second one, and so on.
    pub cuts: Vec<Cut>,
    /// Copies of the machine that are kept at most of each life.
    pub copies: usize,
    /// The session begins where the first of the cuts comes next.
    pub at_cut: bool,
    /// Called with the place where clients find it.
    pub ready: &'a dyn Fn(&str),
}

/// Serves a session until it ends.
pub(crate) fn run(
    prepared: &Prepared,
    bug: Option<&'static str>,
    options: Options,
    observer: &dyn Observer,
) -> Result<Value, Error> {
    let listener = server::Listener::new(options.listen)?;
    let place = listener.place()?;
    let mut session = Session::new(
        prepared.clone(),
        bug,
        options.cuts,
        options.copies,
        Printer::new(true),
    )?;
    if options.at_cut {
        session.go_to_cut(&mut || observer.interrupted())?;
    }
    (options.ready)(&place);
    let status = server::serve(&mut session, &listener, &|| observer.interrupted())?;
    let interrupted = observer.interrupted();
    Ok(json!({"listened": place, "exit_code": status, "interrupted": interrupted}))
}
