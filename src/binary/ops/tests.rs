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
        d.get("zoo.all",q,{success:x}).add(d.post("zoo.feed",P.feed,{})).add(d.get("zoo.list",P.list,{})).add(d.delete("zoo.get",P.get))
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
    let text = r#"function a(){let r="/one";return d.get("a.b",r,{success:x})}function b(){let r="/two";return d.get("c.d",`${r}/x`,{})}"#;
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
    let text = r#"var ao=mk("GET"),bo=mk("POST");x.add(ao("session.list","/api/session",{success:x}),bo("session.create","/api/session",{success:x}),co("a.b","/c",{success:x}))"#;
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
        r#"d.get("zoo.all",q,{success:x})"#,
        r#"d.get("zoo.all","not a path",{success:x})"#,
        r#"var q=q;d.get("zoo.all",q,{success:x})"#,
        r#"var a=b+"/x",b=a+"/y";d.get("zoo.all",a,{success:x})"#,
    ] {
        assert_eq!(rows(text), [], "{text}");
    }
}

#[test]
fn a_registration_whose_path_is_not_made_out_is_told() {
    let found =
        of_text(br#"d.get("a.b","/a",{success:x});d.get("c.d",f(x),{success:x});d.get("e.f",unknown,{success:x});m.get("g",unknown)"#, 100);
    assert_eq!(found.found.len(), 1);
    let unresolved: Vec<_> = found.unresolved.iter().map(|one| (one.offset, one.id.as_str())).collect();
    assert_eq!(unresolved, [(130, "c.d"), (160, "e.f")]);
}

#[test]
fn a_made_up_bundle_yields_exactly_what_it_registers() {
    let mut file = made_elf(&[(".rodata", br#"d.get("not.code","/outside",{success:z})"#)]);
    let first = r#"q.get("zebra.list","/zoo/zebra",{success:z})"#;
    let second = "let r=\"/zoo\";q.post(\"zebra.feed\",`${r}/zebra/:name/feed`,{success:z})";
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
        assert_eq!(rows(&format!("{text};d.get(\"a.b\",\"/c\",{{success:x}})")), [row("GET", "/c", "a.b")], "{text}");
    }
}

#[test]
fn a_registration_in_a_comment_or_in_a_string_is_none() {
    let call = r#"d.get("not.there","/not",{success:x})"#;
    for text in [
        format!("// {call}\n"),
        format!("x=1; // as in {call}\n"),
        format!("/* {call} */"),
        format!("/*\n * {call}\n */\n"),
        format!("var doc='example: {call}';"),
        format!("f('{call}','x');"),
        format!("y=`see {call}\n and more`;"),
        "z=\"d.get('not.there','/not',{success:x})\";".to_owned(),
        "// var ao=mk(\"GET\");ao(\"not.there\",\"/not\",{success:x})\n".to_owned(),
    ] {
        let live = r#"q='a';w=`b`;d.get("a.b","/c",{success:A('It')}),d.get("fs.read","/fs/*",{}),e='http://x',d.get("c.d","/e",{});f='g'"#;
        let expected = [row("GET", "/c", "a.b"), row("GET", "/fs/*", "fs.read"), row("GET", "/e", "c.d")];
        assert_eq!(rows(&format!("{text}{live}")), expected, "{text}");
        assert_eq!(rows(&format!("{live};{text}")), expected, "{text}");
    }
}

#[test]
fn a_constant_of_a_block_that_is_closed_is_another_one() {
    let text = r#"var r="/real";function f(){var r="/local";return r}d.get("x.list",r,{success:x});"#;
    assert_eq!(rows(text), [row("GET", "/real", "x.list")]);
    let hidden = r#"function f(){var r="/local";return r}d.get("x.list",r,{success:x}),d.get("y.list","/y",{})"#;
    let found = of_text(hidden.as_bytes(), 0);
    assert_eq!((found.found.len(), found.unresolved.len()), (1, 1), "{found:?}");
    // A module that is made ready when it is first used.
    let lazy = r#"var P;var init=v(()=>{P={list:"/zoo","x":"}"}});d.get("zoo.list",P.list,{success:x})"#;
    assert_eq!(rows(lazy), [row("GET", "/zoo", "zoo.list")]);
    let doubt = r#"var r;a(()=>{r="/one"});b(()=>{r="/two"});d.get("x.list",r,{success:x})"#;
    assert_eq!(rows(doubt), [], "which of two came first is not known");
}

#[test]
fn a_registration_that_stands_there_twice_is_one_operation() {
    let mut file = made_elf(&[]);
    let text = r#"d.get("zoo.dup","/zoo",{success:x}),d.get("zoo.dup","/zoo",{}),d.post("zoo.dup","/zoo",{})"#;
    file.extend_from_slice(&made_payload("--", &[text]));
    assert_eq!(operations(&file).unwrap().found.len(), 2);
}

#[test]
fn a_small_text_that_was_made_to_be_slow_is_given_up_in_bounded_time() {
    let calls = |name: &str| format!("d.get(\"a.b\",{name},{{success:x}}),").repeat(50);
    let doubled = format!("{}{}", "a=a+a;".repeat(2000), calls("a"));
    let chain = (0..20_000).map(|at| format!("v{0}=`${{v{1}}}${{v{1}}}`;", at % 50, at % 50 + 1)).collect::<String>() + &calls("v0");
    let sums = "ao(\"a.b\",\"/c\",{success:x})+".repeat(40_000);
    let unclosed = "d.get(\"a.b\",\"/c\",{x:[".repeat(20_000);
    for text in [doubled, chain, sums, unclosed] {
        let start = std::time::Instant::now();
        let mut file = made_elf(&[]);
        file.extend_from_slice(&made_payload("--", &[&text]));
        operations(&file).unwrap();
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}: {}", start.elapsed(), &text[..20]);
    }
}

#[test]
fn functions_that_register_have_paths_of_constants_and_ids_of_any_form() {
    let text = r#"var ao=H.make("GET"),r="/api/project",bo=mk("POST");ao("project.list",r,{success:x});
        ao("project.current",`${r}/current`,{success:x});ao("project.lit","/api/project/lit",{success:x});
        bo("health","/api/health",{success:x});bo("spaced.op", "/api/spaced",{success:x});bo('single.op','/api/single',{success:x});
        bo("tpl.op",`/api/tpl`,{success:x});bo("far.op",P.q.r,{success:x})"#;
    let found = of_text(text.as_bytes(), 0);
    let paths: Vec<_> = found.found.iter().map(|one| (one.method.as_deref().unwrap_or("?"), one.id.as_str(), one.path.as_str())).collect();
    assert_eq!(
        paths,
        [
            ("GET", "project.list", "/api/project"),
            ("GET", "project.current", "/api/project/current"),
            ("GET", "project.lit", "/api/project/lit"),
            ("POST", "health", "/api/health"),
            ("POST", "spaced.op", "/api/spaced"),
            ("POST", "single.op", "/api/single"),
            ("POST", "tpl.op", "/api/tpl"),
        ]
    );
    assert_eq!(found.unresolved.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["far.op"]);
}

/// Each is a registration by its options: read right, or told as one that is not made out.
#[test]
fn what_registers_is_read_right_or_told_as_not_made_out() {
    for (call, path) in [
        (r#"d.get("2fa.enable","/2fa",{success:x})"#, Some("/2fa")),
        (r#"d.get("_internal.x","/i",{success:x})"#, Some("/i")),
        (r#"d.get(`tpl.id`,"/t",{success:x})"#, Some("/t")),
        (r#"d.get("a.b","\/esc",{success:x})"#, Some("/esc")),
        (r#"d.get("a.b","/a/:id(\\d+)",{success:x})"#, Some("/a/:id(\\d+)")),
        (r#"d.get("a.b","/a".concat("/b"),{success:x})"#, Some("/a/b")),
        (r#"d.get("a.b",("/paren"),{success:x})"#, Some("/paren")),
        (r#"d.get("a.b","/a%20b",{success:x})"#, Some("/a%20b")),
        (r#"d.get("a.b","/a+b",{success:x})"#, Some("/a+b")),
        (r#"d.get("a.b",p("/b"),{success:x})"#, None),
        (r#"P={q:{r:"/no"}};d.get("a.b",P.q.r,{success:x})"#, None),
        (r#"K=["/no"];d.get("a.b",K[0],{success:x})"#, None),
        (r#"d.get("a.b",z?"/a":"/b",{success:x})"#, None),
        (r#"d.trace("a.b","/t",{success:x})"#, Some("/t")),
        (r#"d.make("GET")("a.b","/c",{success:x})"#, Some("/c")),
        (r#"d["get"]("a.b","/c",{success:x})"#, Some("/c")),
        (r#"d?.get("a.b","/c",{success:x})"#, Some("/c")),
        (r#"var r="/no";function f(r){return d.get("a.b",r,{success:x})}"#, None),
        (r#"var r="/no";f=(q,r)=>{return d.get("a.b",r,{success:x})}"#, None),
        (r#"var r="/no";f=r=>d.get("a.b",r,{success:x})"#, None),
        (r#"var r="/no";f=({r})=>d.get("a.b",`${r}/x`,{success:x})"#, None),
        (r#"var r="/no";f=(r="/never")=>d.get("a.b",r,{success:x})"#, None),
        (r#"function g(r="/never"){return r}d.get("a.b",r,{success:x})"#, None),
        (r#"function f(r){return d.get("a.b",r,{success:x})}var r="/no";"#, None),
        (r#"var r="/yes";f=q=>d.get("a.b",r,{success:x})"#, Some("/yes")),
        (r#"var r="/yes";f(r=>r+1),d.get("a.b",r,{success:x})"#, Some("/yes")),
    ] {
        let found = of_text(call.as_bytes(), 0);
        let paths: Vec<_> = found.found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!((paths, found.unresolved.len()), (Vec::from_iter(path), usize::from(path.is_none())), "{call}");
    }
}

#[test]
fn options_that_other_calls_have_too_make_no_registration() {
    let text = r#"cookies.get("sid","/app",{path:"/"});cache.put("session.key","/tmp/file",{path:"/x"});store.delete("name","/etc/x",{});
        http.get("users","/users",{headers:{a:1}});app.get("view","/home",{...o});lru.get("a.b","/c",{}).then(x);it("does.it","/works",{...o});
        require("path.posix","/x",{});fetcher("x.y","/z",{query:q});ao("a.b","/c",{headers:1});list.add(m.get("k","/v",{}));
        toast("saved.it","/home",{success:true});api.post("users.create","/users",{payload:q})"#;
    let found = of_text(text.as_bytes(), 0);
    assert_eq!((found.found, found.unresolved), (Vec::new(), Vec::new()));
}

#[test]
fn routes_have_the_path_at_which_their_chain_is_mounted() {
    let text = r#"
  ZooRoutes = lazy2(() => new Hono2().get("/", describeRoute({
    summary: "It's a zoo (", operationId: "zoo.list", responses: { 200: {} } }), async (c) => c.json(/[(]/.test(`a${"`"}`)))
  .post("/:id/feed", describeRoute({ operationId: "zoo.feed" }), validator("json", x), (c) => c).get("/plain", (c) => c)
  .route("/cage", CageRoutes));
  CageRoutes = new Hono2().delete("/:cage", describeRoute({ operationId: "cage.remove" }), (c) => c);
  LostRoutes = lazy2(() => new Hono2().get("/x", describeRoute({ operationId: "lost.x" }), (c) => c));
  const app2 = new Hono2;
  return app2.use((c) => c).route("/zoo", ZooRoutes()).put("/auth/:id", describeRoute({ operationId: "auth.set" }), (c) => c)
    .get("/doc", openAPIRouteHandler(app2, { documentation: {} })).route("/lost", pick(LostRoutes));"#;
    assert_eq!(
        rows(text).into_iter().collect::<std::collections::BTreeSet<_>>(),
        std::collections::BTreeSet::from([
            row("GET", "/zoo", "zoo.list"),
            row("POST", "/zoo/:id/feed", "zoo.feed"),
            row("DELETE", "/zoo/cage/:cage", "cage.remove"),
            row("PUT", "/auth/:id", "auth.set"),
        ])
    );
    let unresolved = of_text(text.as_bytes(), 0).unresolved;
    assert_eq!(unresolved.len(), 1);
    assert_eq!(
        (unresolved[0].id.as_str(), unresolved[0].path.as_deref(), unresolved[0].method.as_deref()),
        ("lost.x", Some("/x"), Some("GET"))
    );
}

proptest::proptest! {
    #[test]
    fn no_text_panics(words in proptest::collection::vec(proptest::sample::select(&[
        "d", ".get(", "\"a.b\"", ",", "`", "${", "}", "q", "=", "{", ":", "\"/x\"", ")", "+", ".", "annotations({", "identifier:", "'", "\\", "(\"", "\",\"/",
    ][..]), 0..40)) {
        let _ = of_text(words.concat().as_bytes(), 7);
    }
}
