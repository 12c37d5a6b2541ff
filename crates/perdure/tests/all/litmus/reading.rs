//! What is wrong with a file is said with its line and column.

use perdure::litmus::read::{read, read_bytes};

/// A test with these threads and lines behind them.
fn wrong(model: &str, threads: &str, more: &str) -> String {
    let text = format!("name = \"a test\"\nmodel = \"{model}\"\n{more}threads = {threads}\n");
    match read(&text) {
        Ok(test) => panic!("{text} was read as {test:?}"),
        Err(message) => message,
    }
}

#[test]
fn mistakes_have_a_line_and_a_column() {
    for (threads, expected) in [
        (
            r#"[["stroe x 1"]]"#,
            "3:14: 'stroe' is no instruction; the nearest is 'store'",
        ),
        (
            r#"[["store x"]]"#,
            "3:21: something is missing: write store LOCATION NUMBER|REGISTER",
        ),
        (
            r#"[["store x 256"]]"#,
            "3:22: '256' is no number from 0 to 255",
        ),
        (r#"[["store 1 1"]]"#, "3:20: '1' is no name of a location"),
        (r#"[["sfence x"]]"#, "3:21: 'x' is too much: write sfence"),
        (r#"[[""]]"#, "3:14: no instruction stands here"),
        (
            r#"[["dsb"]]"#,
            "3:14: the model px86 has no dsb; it has load, store, xchg",
        ),
        (
            r#"[["cbo.clean x"]]"#,
            "3:14: the model px86 has no cbo.clean",
        ),
        (
            r#"[["store x a"]]"#,
            "3:13: register a is used before it is written",
        ),
        (
            r#"[["load a x", "beqz a 1", "load b x", "store y b"]]"#,
            "3:49: register b is used before it is written",
        ),
        (
            r#"[["load a x", "beqz a 2", "sfence"]]"#,
            "3:25: jumps out of the thread",
        ),
        (
            r#"[["load a x", "beqz a 0", "sfence"]]"#,
            "3:33: '0' is no number of instructions",
        ),
        (r#"[["load x x"]]"#, "3:21: 'x' is a register"),
        (r#"[["store x 1", "load x y"]]"#, "3:32: 'x' is a location"),
        ("[]", "3:11: 0 threads: a test has 1 to 8"),
        (r#"[["store x 1", 5]]"#, "3:26: invalid type: integer"),
    ] {
        let message = wrong("px86", threads, "");
        assert!(message.starts_with(expected), "{threads}: {message}");
    }
    let message = wrong("perdure", r#"[["fence x,rw"]]"#, "");
    assert!(
        message.starts_with("3:20: 'x,rw' names no accesses"),
        "{message}"
    );
    let message = wrong("arm", r#"[["cbo.clean x"]]"#, "");
    assert!(
        message.starts_with("3:14: the model arm has no cbo.clean"),
        "{message}"
    );
    let message = wrong("px68", r#"[["sfence"]]"#, "");
    assert!(
        message.starts_with("2:9: 'px68' is no model; the nearest is 'px86'"),
        "{message}"
    );
}

#[test]
fn lines_and_contents_are_checked() {
    for (more, expected) in [
        (
            "same_line = [[\"x\", \"x\"]]\n",
            "3:20: 'x' is in a line already",
        ),
        ("allowed = [\"x=0\"]\n", "3:13: what y holds is missing"),
        (
            "allowed = [\"x=0 x=1 y=0\"]\n",
            "3:17: x has a value already",
        ),
        (
            "allowed = [\"x=0 y=0\",\n  \"y=0 x=0\"]\n",
            "4:3: this is allowed already",
        ),
        (
            "allowed = [\"x=0 yy=0\"]\n",
            "3:17: 'yy' is no location of any thread",
        ),
        (
            "allowed = [\"x=0 y\"]\n",
            "3:17: 'y' says nothing of a location",
        ),
        ("alowed = []\n", "3:1: unknown field `alowed`"),
    ] {
        let message = wrong("px86", r#"[["store x 1", "store y 1"]]"#, more);
        assert!(message.starts_with(expected), "{more}: {message}");
    }
}

#[test]
fn a_line_may_have_a_place_that_no_thread_touches() {
    let text = "name = 'x'\nmodel = 'px86'\nsame_line = [['x', 'x2']]\nthreads = [['store x 1']]";
    let test = read(text).expect("a test");
    assert_eq!((test.locations.len(), test.lines), (1, vec![0]));
}

#[test]
fn what_is_no_text_is_refused_at_its_first_byte_that_is_none() {
    for (bytes, expected) in [
        (&b"name = \"\xff\"\n"[..], "1:9: the byte 0xff is no UTF-8"),
        (
            b"# \xc3\xa9\nname = \"\xc3\"",
            "2:9: the byte 0xc3 is no UTF-8",
        ),
        (b"#\xc3\xa9\xe9", "1:3: the byte 0xe9 is no UTF-8"),
    ] {
        let message = read_bytes(bytes).expect_err("no text");
        assert_eq!(message, expected);
    }
}
