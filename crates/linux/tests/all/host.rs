//! The host is never harmed: where released files go, whatever the guest named its files and links
//! and whatever stands on the host.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use perdure_linux::{Bytes, HostDirectories, Mount, Release, WORK_DIRECTORY};

/// An empty place that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place =
            std::env::temp_dir().join(format!("perdure-host-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("a directory");
        Self(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file_of(path: &str, bytes: &[u8], mode: u32) -> Release {
    Release::File {
        path: path.to_owned(),
        size: bytes.len() as u64,
        mode,
        whole: true,
        pieces: vec![(0, Bytes::from(bytes.to_vec()))],
    }
}

fn file(path: &str) -> Release {
    file_of(path, b"x", 0o644)
}

fn removed(path: &str) -> Release {
    Release::Removed {
        path: path.to_owned(),
    }
}

fn directory(path: &str) -> Release {
    Release::Directory {
        path: path.to_owned(),
    }
}

fn link(path: &str, target: &Path) -> Release {
    Release::Link {
        path: path.to_owned(),
        target: target.display().to_string(),
    }
}

fn keeping(kept: &Path) -> HostDirectories {
    HostDirectories::new(Some(kept), &[], &["/data"]).expect("a folder")
}

fn through(host: &Path) -> HostDirectories {
    let mount = Mount {
        host: host.to_owned(),
        guest: WORK_DIRECTORY.to_owned(),
    };
    HostDirectories::new(None, &[mount], &["/work/inner"]).expect("a folder")
}

fn count(place: &Path) -> usize {
    fs::read_dir(place).expect("a directory").count()
}

#[test]
fn without_a_folder_nothing_goes_anywhere() {
    let mut nowhere = HostDirectories::new(None, &[], &["/data"]).expect("no folder is needed");
    for release in [file("/work/a"), removed("/work/a"), directory("/data/d")] {
        assert!(!nowhere.apply(&release).expect("nothing to refuse"));
    }
}

#[test]
fn files_are_kept_under_their_guest_paths_and_can_be_executed_by_nobody_as_another() {
    let place = Place::new("kept");
    let mut kept = keeping(&place.0);
    for release in [
        directory("/work/d"),
        file_of("/work/d/a", b"one", 0o6755),
        file_of("/data/b", b"two", 0o444),
    ] {
        for _ in 0..2 {
            assert!(kept.apply(&release).expect("it is kept"));
        }
    }
    let read = |path: &str| fs::read(place.0.join(path)).expect("the file");
    assert_eq!(
        (read("work/d/a"), read("data/b")),
        (b"one".to_vec(), b"two".to_vec())
    );
    let mode = fs::metadata(place.0.join("work/d/a"))
        .expect("the file")
        .permissions();
    assert_eq!(mode.mode() & 0o7777, 0o755);
    assert!(kept.apply(&removed("/work/d/a")).expect("it goes"));
    assert!(!place.0.join("work/d/a").exists());
}

/// Bytes of a name that are no UTF-8 are the last characters of the last plane until they come here.
#[test]
fn names_that_are_no_utf_8_have_their_own_bytes_on_the_host() {
    let place = Place::new("bytes");
    let mut kept = keeping(&place.0);
    let bytes = |name: &'static [u8]| place.0.join("work").join(OsStr::from_bytes(name));
    let to = Path::new("\u{10fffe}");
    for release in [
        directory("/work/d\u{10ffe9}"),
        file("/work/d\u{10ffe9}/f\u{10ffff}é"),
        link("/work/l\u{10ff80}", to),
    ] {
        assert!(kept.apply(&release).expect("it is kept"));
    }
    assert_eq!(
        fs::read(bytes(b"d\xe9/f\xff\xc3\xa9")).expect("the file"),
        b"x"
    );
    let target = fs::read_link(bytes(b"l\x80")).expect("the link");
    assert_eq!(target.as_os_str().as_bytes(), b"\xfe");
    assert!(
        kept.apply(&removed("/work/d\u{10ffe9}/f\u{10ffff}é"))
            .expect("it goes")
    );
    assert_eq!(count(&bytes(b"d\xe9")), 0);
}

#[test]
fn what_this_run_has_not_put_there_is_never_removed() {
    let place = Place::new("not-ours");
    fs::create_dir_all(place.0.join("work/sources/inner")).expect("a directory");
    fs::write(place.0.join("work/sources/inner/main.c"), "mine").expect("a file");
    fs::write(place.0.join("work/notes"), "mine").expect("a file");
    let mut kept = keeping(&place.0);
    for path in [
        "/work/sources/inner/main.c",
        "/work/sources/inner",
        "/work/sources",
        "/work/notes",
    ] {
        assert!(
            kept.apply(&removed(path)).expect("nothing to refuse"),
            "{path}"
        );
    }
    let gone = ["/work/notes".to_owned(), "/work/a\"\n".to_owned()].into();
    kept.note_removed(&gone).expect("a note");
    let note = fs::read_to_string(place.0.join("removed.json")).expect("the note");
    assert_eq!(note, "[\n  \"/work/a\\\"\\u000a\",\n  \"/work/notes\"\n]\n");
    // A directory of the guest's own that holds something else stays with it.
    kept.apply(&directory("/work/sources"))
        .expect("it is there");
    kept.apply(&removed("/work/sources")).expect("it stays");
    let main = fs::read_to_string(place.0.join("work/sources/inner/main.c")).expect("the file");
    assert_eq!(main, "mine");
    // What stood there under another name as well is replaced, not changed.
    fs::hard_link(place.0.join("work/notes"), place.0.join("other")).expect("a name");
    kept.apply(&file("/work/notes")).expect("it is replaced");
    assert_eq!(fs::read(place.0.join("other")).expect("the file"), b"mine");
    assert_eq!(
        fs::read(place.0.join("work/notes")).expect("the file"),
        b"x"
    );
}

#[test]
fn no_link_leads_out_of_either_kind_of_folder() {
    for (name, make) in [
        ("links-kept", keeping as fn(&Path) -> HostDirectories),
        ("links-through", through),
    ] {
        let (outside, inside) = (Place::new(&format!("{name}-out")), Place::new(name));
        fs::write(outside.0.join("precious"), "mine").expect("a file");
        let work = match name {
            "links-kept" => inside.0.join("work"),
            _ => inside.0.clone(),
        };
        fs::create_dir_all(&work).expect("a directory");
        // Links that stand on the host.
        symlink(&outside.0, work.join("way-out")).expect("a link");
        symlink(outside.0.join("precious"), work.join("file")).expect("a link");
        symlink("..", work.join("up")).expect("a link");
        let mut host = make(&inside.0);
        for path in ["/work/way-out/x", "/work/way-out/precious", "/work/up/x"] {
            let refused = host.apply(&file(path)).expect_err(path).to_string();
            assert!(refused.contains("is a symbolic link"), "{refused}");
            // Nothing of this run's is there; or it is refused.
            let _ = host.apply(&removed(path));
        }
        host.apply(&file("/work/file"))
            .expect("the link itself is replaced");
        assert_eq!(fs::read(work.join("file")).expect("the file"), b"x");
        // Links that the guest makes, and then goes through.
        host.apply(&link("/work/made", &outside.0))
            .expect("a link is a link");
        assert!(host.apply(&file("/work/made/x")).is_err());
        host.apply(&link("/work/dangling", &outside.0.join("new")))
            .expect("a link");
        host.apply(&file("/work/dangling"))
            .expect("the link itself is replaced");
        // A directory that somebody makes a link while it is in use.
        host.apply(&directory("/work/d")).expect("a directory");
        host.apply(&file("/work/d/a")).expect("a file");
        fs::rename(work.join("d"), work.join("moved")).expect("moved away");
        symlink(&outside.0, work.join("d")).expect("a link");
        let _ = host.apply(&file("/work/d/b"));
        let _ = host.apply(&removed("/work/d/precious"));
        let _ = host.apply(&removed("/work/d"));
        assert_eq!(
            fs::read(outside.0.join("precious")).expect("the file"),
            b"mine"
        );
        assert_eq!(
            count(&outside.0),
            1,
            "{name}: something was written outside"
        );
    }
}

#[test]
fn paths_that_are_not_plain_are_refused() {
    let place = Place::new("paths");
    let inside = place.0.join("inside");
    fs::create_dir(&inside).expect("a directory");
    let mut kept = keeping(&inside);
    for path in [
        "/work/../../x",
        "/..",
        "/work/./x",
        "/work//x",
        "/work/",
        "x",
        "",
        "/",
        "/work/\0",
    ] {
        assert!(kept.apply(&file(path)).is_err(), "{path} was accepted");
    }
    let mut host = through(&inside);
    for path in ["/work/../x", "/work/", "/work/a/../../x"] {
        assert!(host.apply(&file(path)).is_err(), "{path} was accepted");
        assert!(host.apply(&removed(path)).is_err(), "{path} was accepted");
    }
    for path in ["/work", "/workx/y", "/etc/passwd", "/work/inner/x"] {
        assert!(!host.apply(&file(path)).expect("it goes nowhere"), "{path}");
    }
    assert_eq!((count(&place.0), count(&inside)), (1, 0));
}

#[test]
fn a_folder_that_is_written_through_becomes_what_the_guest_made_of_it() {
    let place = Place::new("through");
    fs::create_dir_all(place.0.join("old/inner")).expect("a directory");
    fs::write(place.0.join("old/inner/a"), "a").expect("a file");
    fs::write(place.0.join("b"), "longer than before").expect("a file");
    let mut host = through(&place.0);
    for release in [removed("/work/old"), file("/work/b"), file("/work/c")] {
        for _ in 0..2 {
            assert!(host.apply(&release).expect("it is done"));
        }
    }
    assert!(!place.0.join("old").exists());
    assert_eq!(fs::read(place.0.join("b")).expect("the file"), b"x");
    // A pipe is not written into, but replaced; one in a directory that goes was never the guest's.
    fs::create_dir(place.0.join("with-socket")).expect("a directory");
    let socket = place.0.join("with-socket/socket");
    std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    host.apply(&removed("/work/with-socket"))
        .expect("it is done");
    assert!(socket.exists());
}

/// A thousand nested directories with a file in each take steps in proportion, not a thousand times
/// as many.
#[test]
fn deep_directories_cost_no_more_than_their_names() {
    let place = Place::new("deep");
    let mut kept = keeping(&place.0);
    let started = std::time::Instant::now();
    let mut path = "/work".to_owned();
    for _ in 0..1000 {
        path += "/d";
        kept.apply(&directory(&path)).expect("a directory");
        kept.apply(&file(&format!("{path}/f"))).expect("a file");
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// A change of a file that exists, at a place in it.
fn change(path: &str, size: u64, offset: u64, bytes: &[u8]) -> Release {
    Release::File {
        path: path.to_owned(),
        size,
        mode: 0o644,
        whole: false,
        pieces: vec![(offset, Bytes::from(bytes.to_vec()))],
    }
}

/// A file that no host can have: what is written before that is seen stands for what a full disk took.
fn too_long(path: &str) -> Release {
    Release::File {
        path: path.to_owned(),
        size: u64::MAX,
        mode: 0o644,
        whole: true,
        pieces: vec![(0, Bytes::from(b"half".to_vec()))],
    }
}

#[test]
fn a_file_that_the_host_refuses_leaves_what_was_there() {
    let place = Place::new("refused");
    let path = "/work/a";
    let host = place.0.join("work/a");
    fs::create_dir(place.0.join("work")).expect("a directory");
    fs::write(&host, "mine").expect("a file");
    let mut kept = keeping(&place.0);
    let _ = kept.apply(&too_long(path)).expect_err("it is refused");
    assert_eq!(fs::read(&host).expect("the file"), b"mine");
    assert_eq!(count(&place.0.join("work")), 1);
    assert!(kept.lacks(path));
    // What comes after it makes no sense of the old file.
    let more = change(path, 5, 4, b"!");
    assert!(!kept.apply(&more).expect("nothing to refuse"));
    assert_eq!(fs::read(&host).expect("the file"), b"mine");
    assert!(
        kept.apply(&file_of(path, b"all", 0o644))
            .expect("it is kept")
    );
    assert!(!kept.lacks(path));
    assert_eq!(fs::read(&host).expect("the file"), b"all");
}

#[test]
fn a_file_whose_growth_the_host_refuses_is_none() {
    let place = Place::new("growth");
    let path = "/work/a";
    let mut kept = keeping(&place.0);
    assert!(
        kept.apply(&file_of(path, b"one", 0o644))
            .expect("it is kept")
    );
    assert!(kept.apply(&change(path, 4, 3, b"!")).expect("it is kept"));
    let host = place.0.join("work/a");
    assert_eq!(fs::read(&host).expect("the file"), b"one!");
    let _ = kept
        .apply(&change(path, u64::MAX, 4, b"half"))
        .expect_err("it is refused");
    assert_eq!(count(&place.0.join("work")), 0);
    assert!(
        !kept
            .apply(&change(path, 9, 8, b"?"))
            .expect("it goes nowhere")
    );
    assert!(kept.lacks(path) && !kept.lacks("/work/b"));
    kept.apply(&removed(path)).expect("nothing to refuse");
    assert!(!kept.lacks(path));
}

#[test]
fn what_has_no_room_changes_nothing_of_a_file_that_is_written_through() {
    let place = Place::new("no-room");
    let [host, other] = ["a", "b"].map(|name| place.0.join(name));
    fs::write(&host, "mine").expect("a file");
    fs::hard_link(&host, &other).expect("another name");
    let mut through = through(&place.0);
    for whole in [true, false] {
        let release = Release::File {
            path: "/work/a".into(),
            size: 3,
            mode: 0o644,
            whole,
            pieces: vec![
                (0, Bytes::from(b"new".to_vec())),
                (i64::MAX as u64 - 2, Bytes::from(b"far".to_vec())),
            ],
        };
        let refused = through.apply(&release);
        // Once it lacks something, changes of it go nowhere.
        assert!(if whole {
            refused.is_err()
        } else {
            !refused.expect("nowhere")
        });
        assert_eq!(fs::read(&other).expect("the file"), b"mine");
    }
    assert!(
        through
            .apply(&file_of("/work/a", b"new", 0o644))
            .expect("written")
    );
    assert_eq!(fs::read(&other).expect("the file"), b"new");
    // Of a file that was not there, nothing stays.
    let _ = through
        .apply(&too_long("/work/c"))
        .expect_err("it is refused");
    assert_eq!(count(&place.0), 2);
}
