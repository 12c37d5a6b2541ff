//! Names of functions as their authors wrote them: C++'s and Rust's are mangled in symbols and debug
//! information.
//!
//! Always true here: a name that is not mangled, or in no way that is known, stays as it is.

use cpp_demangle::DemangleOptions;

/// A name of Rust's, without the hash that each compilation makes anew.
pub fn rust(name: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(name).ok()?;
    Some(format!("{name:#}"))
}

/// What `std::string` stands for, in every name that has one.
const STRING: &str =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";

/// What mangled names of C++ begin with: without that, `f` would be `float`.
const CPP: [&str; 3] = ["_Z", "__Z", "_GLOBAL_"];

/// A name of C++'s, with the types of parameters, without that of the result.
pub fn cpp(name: &str) -> Option<String> {
    if !CPP.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = DemangleOptions::new().no_return_type();
    let name = symbol.demangle_with_options(&options).ok()?;
    Some(name.replace(STRING, "std::string"))
}

/// The name for people.
pub fn demangled(name: &str) -> String {
    rust(name)
        .or_else(|| cpp(name))
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn names_are_as_their_languages_write_them() {
        for (mangled, name) in [
            ("_ZN4list4pushEml", "list::push(unsigned long, long)"),
            (
                "_Z3putRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                "put(std::string const&)",
            ),
            ("_ZN12_GLOBAL__N_14fillEv", "(anonymous namespace)::fill()"),
            ("_ZN4list4Node4fill17h0123456789abcdefE", "list::Node::fill"),
            ("_RNvNtCs1234_4list4node4fill", "list::node::fill"),
            ("main.(*list).push", "main.(*list).push"),
            ("fill", "fill"),
            ("f", "f"),
            ("St", "St"),
            ("_GLOBAL__sub_I_main", "_GLOBAL__sub_I_main"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(demangled(mangled), name);
        }
    }
}
