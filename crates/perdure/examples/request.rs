//! Carries out one request from the command line, for profiling without Python:
//! `cargo run --release -p perdure --example request -- run '{"program":["./a.out"]}'`.

use perdure::api::{self, Unobserved};
use perdure::forks;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, verb, request] = arguments.as_slice() else {
        eprintln!("usage: request run|cut|replay|forks|mutants|configuration REQUEST");
        std::process::exit(2);
    };
    let result = match verb.as_str() {
        "run" => api::run(request, &Unobserved),
        "cut" => api::cut(request, &Unobserved),
        "replay" => api::replay(request, &Unobserved),
        "forks" => forks::time(request, &Unobserved),
        "mutants" => api::mutants(request, &Unobserved),
        "configuration" => api::configuration(request),
        other => Ok(format!("no verb '{other}'")),
    };
    match result {
        Ok(text) => println!("{text}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
