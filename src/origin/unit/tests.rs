use super::parse::{environment_file, unit_file, words};
use super::*;

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let tree = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let host = Host::at_root(tree.path());
    (tree, host)
}

fn shown(setting: Option<&Setting>) -> Option<(&str, String)> {
    let setting = setting?;
    Some((&setting.source, String::from_utf8_lossy(setting.value.clear()?).into_owned()))
}

const USER: Manager = Manager::User { uid: 1000, home: None };

#[test]
fn r06_unit_file_and_drop_in_are_two_columns() {
    let (_tree, host) = tree(&[
        ("home/ann/.config/systemd/user/openclaw.service", "[Service]\nEnvironment=MODE=a \"PATH=/usr/bin\"\nExecStart=/bin/x\n"),
        ("home/ann/.config/systemd/user/openclaw.service.d/20-path.conf", "[Service]\nEnvironment=PATH=%h/bin:/usr/bin\n"),
        ("etc/systemd/user/openclaw.service.d/10-early.conf", "[Service]\nEnvironment=PATH=/early\nEnvironmentFile=-/etc/claw.env\n"),
        ("etc/claw.env", "# comment\nMODE='from file'\nSPACED = two words  \n"),
    ]);
    let manager = Manager::User { uid: 1000, home: Some("/home/ann".to_owned()) };
    let declared = declared(&host, "openclaw.service", &manager).unwrap();
    let path = declared.columns("PATH");
    assert_eq!(shown(path.unit_file.as_ref()), Some(("/home/ann/.config/systemd/user/openclaw.service", "/usr/bin".to_owned())));
    let drop_in = ("/home/ann/.config/systemd/user/openclaw.service.d/20-path.conf", "/home/ann/bin:/usr/bin".to_owned());
    assert_eq!(shown(path.drop_in.as_ref()), Some(drop_in.clone()));
    assert_eq!(shown(path.declared.as_ref()), Some(drop_in));
    assert_eq!(shown(declared.columns("MODE").declared.as_ref()), Some(("/etc/claw.env", "from file".to_owned())));
    assert_eq!(shown(declared.columns("SPACED").declared.as_ref()), Some(("/etc/claw.env", "two words".to_owned())));
    assert_eq!(declared.names().iter().map(|name| name.lossy().into_owned()).collect::<Vec<_>>(), ["MODE", "PATH", "SPACED"]);
}

#[test]
fn an_empty_line_takes_back_and_a_same_named_drop_in_replaces() {
    let (_tree, host) = tree(&[
        ("usr/lib/systemd/system/x@.service", "[Service]\nEnvironment=A=1 B=%i\nUnsetEnvironment=LANG\n"),
        ("usr/lib/systemd/system/x@.service.d/a.conf", "[Service]\nEnvironment=A=lib\n"),
        ("etc/systemd/system/x@.service.d/a.conf", "[Service]\nEnvironment=\nEnvironment=C=3\nPassEnvironment=HOME\n"),
    ]);
    let declared = declared(&host, "x@one.service", &Manager::System).unwrap();
    assert_eq!(declared.files.len(), 2);
    let columns = declared.columns("A");
    assert_eq!(shown(columns.unit_file.as_ref()).unwrap().1, "1");
    assert_eq!((columns.declared, columns.drop_in), (None, None));
    assert_eq!(shown(declared.columns("B").unit_file.as_ref()).unwrap().1, "one");
    assert!(declared.columns("HOME").passed_by.is_some());
    assert!(declared.columns("LANG").unset_by.is_some());
}

#[test]
fn drop_ins_of_shorter_names_and_of_the_kind_count_too() {
    let (_tree, host) = tree(&[
        ("etc/systemd/user/a-b.service", "[Service]\n"),
        ("etc/systemd/user/a-.service.d/1.conf", "[Service]\nEnvironment=X=dash\n"),
        ("etc/systemd/user/service.d/2.conf", "[Service]\nEnvironment=Y=kind\n"),
    ]);
    let declared = declared(&host, "a-b.service", &USER).unwrap();
    assert_eq!(shown(declared.columns("X").drop_in.as_ref()).unwrap().1, "dash");
    assert_eq!(shown(declared.columns("Y").drop_in.as_ref()).unwrap().1, "kind");
}

#[test]
fn a_unit_without_files_is_absent_and_a_name_cannot_leave() {
    let (_tree, host) = tree(&[]);
    assert_eq!(declared(&host, "none.service", &Manager::System), Err(Unknown::Absent));
    assert!(matches!(declared(&host, "../etc/passwd", &Manager::System), Err(Unknown::Malformed(_))));
}

#[test]
fn quoting_is_that_of_systemd_syntax() {
    let split = |text: &str| words(text.as_bytes()).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>();
    // The example of systemd.exec(5): three variables.
    assert_eq!(split(r#""VAR1=word1 word2" VAR2=word3 "VAR3=$word 5 6""#), ["VAR1=word1 word2", "VAR2=word3", "VAR3=$word 5 6"]);
    assert_eq!(split(r"A=\x41\102\u00e9\ttab B='x y' C=a\qb"), ["A=ABé\ttab", "B=x y", r"C=a\qb"]);
    assert_eq!(split("  "), Vec::<String>::new());
    assert_eq!(split(r#"A="" B=\"#), ["A=", r"B=\"]);
}

#[test]
fn lines_may_be_joined_over_comments() {
    let directives = unit_file(b"[Service]\nEnvironment=A=1 \\\n# not this\n  B=2\n;Environment=C=3\nEnvironment=1X=no\n");
    let [Directive::Environment(entries)] = directives.as_slice() else { panic!("{directives:?}") };
    assert_eq!(entries.iter().map(|entry| entry.name.lossy().into_owned()).collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn an_environment_file_has_the_quotes_of_a_shell() {
    let entries = environment_file(b"A=\"one\ntwo\"\nB=a\\\nb\nC='x $y'  \nexport D=1\nE=\"q\\\"\\n\"\n\nF=");
    let shown: Vec<_> = entries
        .iter()
        .map(|entry| {
            (entry.name.lossy().into_owned(), String::from_utf8_lossy(entry.value.as_ref().unwrap().clear().unwrap()).into_owned())
        })
        .collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(shown, [pair("A", "one\ntwo"), pair("B", "ab"), pair("C", "x $y"), pair("E", "q\"\\n"), pair("F", "")]);
}

#[test]
fn names_are_unescaped() {
    assert_eq!(unescape_name(r"deb\x2d12"), "deb-12");
    assert_eq!(unescape_name(r"a\x2"), r"a\x2");
    assert_eq!(unescape_name(r"\xé"), r"\xé");
}

proptest::proptest! {
    #[test]
    fn no_file_panics(file in proptest::collection::vec(proptest::num::u8::ANY, 0..200), text in "[A-Z=\"'\\\\xu0-9 \n#;%-]{0,80}") {
        let _ = (unit_file(&file), environment_file(&file), words(&file));
        let _ = (unit_file(text.as_bytes()), environment_file(text.as_bytes()), words(text.as_bytes()), unescape_name(&text));
    }
}
