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
    let text = r#"var ao=mk("GET"),bo=mk("POST");x.add(ao("session.list","/api/session",{}),bo("session.create","/api/session",{}),co("a.b","/c"))"#;
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

proptest::proptest! {
    #[test]
    fn no_text_panics(words in proptest::collection::vec(proptest::sample::select(&[
        "d", ".get(", "\"a.b\"", ",", "`", "${", "}", "q", "=", "{", ":", "\"/x\"", ")", "+", ".", "annotations({", "identifier:", "'", "\\", "(\"", "\",\"/",
    ][..]), 0..40)) {
        let _ = of_text(words.concat().as_bytes(), 7);
    }
}
