use super::*;
use crate::binary::bun::made_payload;
use crate::binary::elf::made_elf;

fn rows(text: &str) -> Vec<(String, String, String)> {
    let found = of_text(text.as_bytes(), 0).found.into_iter();
    found.map(|one| (one.method.unwrap_or_default(), one.path, one.identifier.unwrap_or(one.id))).collect()
}

fn row(method: &str, path: &str, id: &str) -> (String, String, String) {
    (method.to_owned(), path.to_owned(), id.to_owned())
}

#[test]
fn paths_are_strings_templates_constants_members_and_sums() {
    let text = r#"var q="/api/zoo",P={list:`${q}/list`,"get":q+"/:animalID",deep:{x:1},feed:"/api/feed"};
        d.get("zoo.all",q,{x:1}).add(d.post("zoo.feed",P.feed,{})).add(d.get("zoo.list",P.list,{})).add(d.delete("zoo.get",P.get))
        .add(d.put("zoo.put",`${q}/:animalID/cage`,{}),d.patch("zoo.sum",q+"/sum"+"/x",{}))"#;
    assert_eq!(
        rows(text),
        [
            row("GET", "/api/zoo", "zoo.all"),
            row("POST", "/api/feed", "zoo.feed"),
            row("GET", "/api/zoo/list", "zoo.list"),
            row("DELETE", "/api/zoo/:animalID", "zoo.get"),
            row("PUT", "/api/zoo/:animalID/cage", "zoo.put"),
            row("PATCH", "/api/zoo/sum/x", "zoo.sum"),
        ]
    );
}

#[test]
fn of_two_constants_of_one_name_the_nearer_one_counts() {
    let text = r#"function a(){let r="/one";return d.get("a.b",r,{})}function b(){let r="/two";return d.get("c.d",`${r}/x`,{})}"#;
    assert_eq!(rows(text), [row("GET", "/one", "a.b"), row("GET", "/two/x", "c.d")]);
}

#[test]
fn the_name_of_the_contract_is_the_annotated_one() {
    let text = r#"C.get("configGet","/global/config",{success:A(r.Struct({a:r.String}).annotate({identifier:"Config"}),"It's")})
.annotateMerge(M.annotations({identifier:"global.config.get",summary:"x"})),C.get("other","/other",{})"#
        .replace('\n', "");
    assert_eq!(rows(&text), [row("GET", "/global/config", "global.config.get"), row("GET", "/other", "other")]);
}

#[test]
fn functions_that_register_are_known_by_id_and_path() {
    let text = r#"var ao=mk("GET"),bo=mk("POST");x.add(ao("session.list","/api/session",{}),bo("session.create","/api/session",{}),co("a.b","/c",{}))"#;
    assert_eq!(
        rows(text),
        [row("GET", "/api/session", "session.list"), row("POST", "/api/session", "session.create"), row("", "/c", "a.b")]
    );
}

#[test]
fn what_only_looks_like_a_registration_is_none() {
    for text in [
        r#"this.get("_password",_)"#,
        r#"headers.get("content-type","/x y")"#,
        r#"map.get("a")"#,
        r#"client.get({url:"/global/health"})"#,
        r#"path.join("a.b","/etc")"#,
        r#"replace("x","/y")"#,
        r#"d.get("zoo.all",q,{})"#,
        r#"d.get("zoo.all","not a path",{})"#,
        r#"var q=q;d.get("zoo.all",q,{})"#,
        r#"var a=b+"/x",b=a+"/y";d.get("zoo.all",a,{})"#,
    ] {
        assert_eq!(rows(text), [], "{text}");
    }
}

#[test]
fn a_registration_whose_path_is_not_made_out_is_told() {
    let found = of_text(br#"d.get("a.b","/a",{});d.get("c.d",f(x),{});d.get("e.f",unknown,{});m.get("g",unknown)"#, 100);
    assert_eq!(found.found.len(), 1);
    assert_eq!(found.unresolved, [(142, "e.f".to_owned())]);
}

#[test]
fn a_made_up_bundle_yields_exactly_what_it_registers() {
    let mut file = made_elf(&[(".rodata", br#"d.get("not.code","/outside",{})"#)]);
    let first = r#"q.get("zebra.list","/zoo/zebra",{})"#;
    let second = "let r=\"/zoo\";q.post(\"zebra.feed\",`${r}/zebra/:name/feed`,{})";
    file.extend_from_slice(&made_payload("--", &[first, second]));
    let found = operations(&file).unwrap().found;
    let ids: Vec<_> = found.iter().map(|one| (one.id.as_str(), one.path.as_str())).collect();
    assert_eq!(ids, [("zebra.list", "/zoo/zebra"), ("zebra.feed", "/zoo/zebra/:name/feed")]);
    let at = found[1].offset as usize;
    assert_eq!(&file[at..at + 6], b"q.post");
}

#[test]
fn what_has_an_id_and_a_path_alone_may_be_anything() {
    for text in [
        r#"params.get("next","/home");localStorage.get("theme","/dark");kv.put("cwd","/tmp")"#,
        r#"kv.put("cwd","/tmp",{ttl:60})"#,
        r#"log("event.name","/some/path");track("page.view","/home");throw Err("bad.path","/x")"#,
        r#"throw new Err("bad.path","/x",{})"#,
    ] {
        assert_eq!(rows(&format!("{text};d.get(\"a.b\",\"/c\",{{}})")), [row("GET", "/c", "a.b")], "{text}");
    }
}

#[test]
fn a_registration_in_a_comment_or_in_a_string_is_none() {
    let call = r#"d.get("not.there","/not",{})"#;
    for text in [
        format!("// {call}\n"),
        format!("x=1; // as in {call}\n"),
        format!("/* {call} */"),
        format!("/*\n * {call}\n */\n"),
        format!("var doc='example: {call}';"),
        format!("f('{call}','x');"),
        format!("y=`see {call}\n and more`;"),
        "z=\"d.get('not.there','/not',{})\";".to_owned(),
        "// var ao=mk(\"GET\");ao(\"not.there\",\"/not\")\n".to_owned(),
    ] {
        let live = r#"q='a';w=`b`;d.get("a.b","/c",{success:'It'}),d.get("fs.read","/fs/*",{}),e='http://x',d.get("c.d","/e",{});f='g'"#;
        let expected = [row("GET", "/c", "a.b"), row("GET", "/fs/*", "fs.read"), row("GET", "/e", "c.d")];
        assert_eq!(rows(&format!("{text}{live}")), expected, "{text}");
        assert_eq!(rows(&format!("{live};{text}")), expected, "{text}");
    }
}

#[test]
fn a_constant_of_a_block_that_is_closed_is_another_one() {
    let text = r#"var r="/real";function f(){var r="/local";return r}d.get("x.list",r,{});"#;
    assert_eq!(rows(text), [row("GET", "/real", "x.list")]);
    let hidden = r#"function f(){var r="/local";return r}d.get("x.list",r,{}),d.get("y.list","/y",{})"#;
    let found = of_text(hidden.as_bytes(), 0);
    assert_eq!((found.found.len(), found.unresolved.len()), (1, 1), "{found:?}");
    // A module that is made ready when it is first used.
    let lazy = r#"var P;var init=v(()=>{P={list:"/zoo","x":"}"}});d.get("zoo.list",P.list,{})"#;
    assert_eq!(rows(lazy), [row("GET", "/zoo", "zoo.list")]);
    let doubt = r#"var r;a(()=>{r="/one"});b(()=>{r="/two"});d.get("x.list",r,{})"#;
    assert_eq!(rows(doubt), [], "which of two came first is not known");
}

#[test]
fn a_registration_that_stands_there_twice_is_one_operation() {
    let mut file = made_elf(&[]);
    let text = r#"d.get("zoo.dup","/zoo",{}),d.get("zoo.dup","/zoo",{}),d.post("zoo.dup","/zoo",{})"#;
    file.extend_from_slice(&made_payload("--", &[text]));
    assert_eq!(operations(&file).unwrap().found.len(), 2);
}

#[test]
fn a_small_text_that_was_made_to_be_slow_is_given_up_in_bounded_time() {
    let calls = |name: &str| format!("d.get(\"a.b\",{name},{{}}),").repeat(50);
    let doubled = format!("{}{}", "a=a+a;".repeat(2000), calls("a"));
    let chain = (0..20_000).map(|at| format!("v{0}=`${{v{1}}}${{v{1}}}`;", at % 50, at % 50 + 1)).collect::<String>() + &calls("v0");
    let sums = "ao(\"a.b\",\"/c\",{})+".repeat(40_000);
    let unclosed = "d.get(\"a.b\",\"/c\",{x:[".repeat(20_000);
    for text in [doubled, chain, sums, unclosed] {
        let start = std::time::Instant::now();
        let mut file = made_elf(&[]);
        file.extend_from_slice(&made_payload("--", &[&text]));
        operations(&file).unwrap();
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}: {}", start.elapsed(), &text[..20]);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(words in proptest::collection::vec(proptest::sample::select(&[
        "d", ".get(", "\"a.b\"", ",", "`", "${", "}", "q", "=", "{", ":", "\"/x\"", ")", "+", ".", "annotations({", "identifier:", "'", "\\", "(\"", "\",\"/",
    ][..]), 0..40)) {
        let _ = of_text(words.concat().as_bytes(), 7);
    }
}
