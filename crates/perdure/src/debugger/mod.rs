//! Debugging, both ways.
mod backward;
mod cut;
mod forward;
mod head;
mod life;
mod output;
mod session;
mod view;
