//! The rewrite module: `set`, `if`, `rewrite`, `break`, `return`.

use crate::harness::{Case, compare, get, head, request};
use crate::site::site;
use freerun_testkit::Setup;

fn gets(targets: &[&str]) -> Vec<Case> {
    targets.iter().map(|target| get(target)).collect()
}

#[test]
fn set_and_if() {
    let site = site();
    let lines = "
        location / { set $a 1; if ($arg_x) { set $a 2; } set $b \"b$a\"; return 200 \"$a $b\\n\"; }
        location /cap { if ($uri ~ \"^/cap/(.)(.)\") { set $q $2$1; return 200 \"q=$q\"; } return 200 none; }
        location /case { set $A 1; set $a 2; return 200 \"$A$a$HOST\"; }
        location /op { set $r \"\";
            if ($arg_x = a) { set $r \"${r}=\"; }
            if ($arg_x != a) { set $r \"${r}!=\"; }
            if ($arg_x ~ ^A) { set $r \"${r}~\"; }
            if ($arg_x ~* ^A) { set $r \"${r}~*\"; }
            if ($arg_x !~ ^A) { set $r \"${r}!~\"; }
            if ($arg_x !~* ^A) { set $r \"${r}!~*\"; }
            if ( $arg_x = \"\" ) { set $r \"${r} empty\"; }
            if ($arg_x = $arg_y) { set $r \"${r} same\"; }
            return 200 $r; }
        location /file {
            set $f \"\";
            if (-f $document_root/a.txt) { set $f \"${f}f\"; }
            if (-d $document_root/dir) { set $f \"${f}d\"; }
            if (-e $document_root/dir) { set $f \"${f}e\"; }
            if (-x $document_root/a.txt) { set $f \"${f}x\"; }
            if (-x $document_root/dir) { set $f \"${f}xd\"; }
            if (!-f $document_root/dir) { set $f \"${f}!f\"; }
            if (!-d $document_root/none) { set $f \"${f}!d\"; }
            if (!-e $document_root/none) { set $f \"${f}!e\"; }
            if (!-x $document_root/a.txt) { set $f \"${f}!x\"; }
            if (-f $document_root/a.txt/x) { set $f \"${f}no\"; }
            if (-e $document_root/broken) { set $f \"${f}broken\"; }
            if (-f $document_root/link.txt) { set $f \"${f}link\"; }
            if (-e $document_root/loop) { set $f \"${f}loop\"; }
            if (-f $arg_none) { set $f \"${f}none\"; }
            return 200 $f; }
        location /args { set $args \"zz=1\"; return 200 \"$args $arg_zz $query_string $is_args $request_uri\"; }
        location /args2 { set $args \"zz=1\"; rewrite ^ /dst last; }
        location /args3 { set $args \"\"; return 200 \"[$args][$is_args]\"; }
        location /rate { set $limit_rate 10k; return 200 \"$limit_rate\"; }
        location /unset { return 200 \"[$never][$capture]\"; }
        location /never { set $never 1; if ($uri ~ (?<capture>x)) { } return 200 \"[$never][$capture]\"; }
        location /family { if ($arg_q) { set $arg_x x; set $http_y y; set $cookie_z z; }
            return 200 \"[$arg_x][$http_y][$cookie_z]\"; }
        location /clear { if ($uri ~ ^/zz) { break; } set $zz \"a$1\"; return 200 \"[$zz]\"; }
        location ~ ^/clear2/(.)$ { if ($uri ~ ^/zz) { break; } set $zz \"a$1\"; return 200 \"[$zz]\"; }
        location ~ ^/named/(?<nn>.)(?<oo>.)?$ { if ($arg_q ~ ^/(?<nn>m)) { return 200 \"[$nn]\"; } return 200 \"[$nn][$oo]\"; }
        location /both { if ($arg_x ~ \"^(?<ii>a)|(?<jj>b)$\") { set $t \"$ii,$jj\"; }
            if ($arg_y ~ \"^(?<ii>a)|(?<jj>b)$\") { set $t \"$t;$ii,$jj\"; } return 200 $t; }
        location ~ ^/re/(?<nm>.)(.)? { set $keep $1; if ($arg_q ~ \"(z)(?<nm2>.)?\") { set $k2 \"$1-$nm2-$2\"; }
            return 200 \"[$keep][$1][$2][$nm][$k2]\"; }
        location /dst { return 200 \"dst $uri $args\\n\"; }
    ";
    let mut cases = gets(&[
        "/",
        "/?x=1",
        "/?x=0",
        "/?x=00",
        "/?x=",
        "/cap/ab",
        "/cap/",
        "/case",
        "/op",
        "/op?x=a",
        "/op?x=A",
        "/op?x=abc",
        "/op?x=b&y=b",
        "/file",
        "/args?a=b",
        "/args2?a=b",
        "/args3?a=b",
        "/rate",
        "/unset",
        "/never",
        "/never/x",
        "/family?x=5",
        "/family?x=5&q=1",
        "/clear",
        "/clear2/1",
        "/named/1",
        "/named/12",
        "/named/1?q=/m",
        "/both?x=a&y=b",
        "/both?x=b&y=a",
        "/both?x=a",
        "/re/a?q=zy",
        "/re/a",
        "/re/ab?q=z",
    ]);
    cases.push(get("/family").field("Y: 9").field("Cookie: z=8"));
    cases.push(get("/family?q=1").field("Y: 9").field("Cookie: z=8"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn rewriting() {
    let site = site();
    let lines = "
        location /rw { rewrite ^/rw/(.*)$ /a.txt?p=$1 break; }
        location /last { rewrite ^/last/(.*)$ /dst/$1 last; return 200 no; }
        location /dst { return 200 \"dst $uri $args\\n\"; }
        location /q { rewrite ^/q/(.*)$ /dst/$1?n=1; return 200 \"after $uri $args\"; }
        location /q2 { rewrite ^/q2/(.*)$ /dst/$1?n=1?; return 200 \"after $uri $args\"; }
        location /q3 { rewrite ^/q3/(.*)$ /dst/$1? last; }
        location /q4 { rewrite ^/q4/(.*)$ \"/dst??\" last; }
        location /q5 { rewrite ^/q5/(.*)$ /dst?$arg_none last; }
        location /red { rewrite ^/red/(.*)$ /x/$1 redirect; }
        location /perm { rewrite ^/perm/(.*)$ /x/$1?a=b permanent; }
        location /abs { rewrite ^/abs/(.*)$ http://h.example/$1; return 200 no; }
        location /abs2 { rewrite ^/abs2/(.*)$ $scheme://h.example/$1 last; }
        location /abs3 { rewrite ^/abs3/(.*)$ https://h.example/$1? permanent; }
        location /abs4 { set $x \"http://v\"; rewrite ^/abs4/(.*)$ $x/$1; }
        location /abs5 { set $x \"http://v\"; rewrite ^/abs5/(.*)$ $x/$1 redirect; }
        location /loop { rewrite ^/loop(.*)$ /loop/$1 last; }
        location ~ ^/count(?<n>a*) { rewrite \"^/counta{10}$\" /a.txt break; rewrite ^/count(.*)$ /count${n}a last; }
        location /two { rewrite ^/two(.*) /two2$1; rewrite ^/two2(.*) /a.txt break; }
        location /brk { rewrite ^ /dst; break; }
        location /then { rewrite ^/then /then2; rewrite ^/then2 /dst; return 200 \"$uri\"; }
        location /then3 { rewrite ^/then3 /then4; rewrite ^/then4 /dst/$uri; }
        location /empty { set $s \"\"; rewrite ^/empty $s; }
        location /none { rewrite ^/none ?a=1; }
        location /relative { rewrite ^/relative(.*) dst$1 last; }
        location /mark { set $s \"/dst?c=1\"; rewrite ^/mark $s; }
        location /dots { rewrite ^/dots /dir/../a.txt break; }
        location /icase { rewrite (?i)^/ICASE/(.*)$ /dst/$1; }
        location /internal { internal; return 200 \"internal $uri\"; }
        location /in { rewrite ^ /internal/in last; }
        location /group { rewrite ^/(g)(roup)$ /dst/$3/$2/$1x; }
        location /up { rewrite ^/up/(.*)$ $1 redirect; }
        location /slashes { rewrite ^/slashes/(.*)$ //evil/$1 redirect; }
        location /hash { rewrite ^/hash/(.*)$ /x/$1# redirect; }
    ";
    let mut cases = gets(&[
        "/rw/zz?k=v",
        "/last/1%20/2?k=v",
        "/q/1%20x?k=v",
        "/q2/1%20x?k=v",
        "/q3/1?k=v",
        "/q4/1?k=v",
        "/q5/1?k=v",
        "/q5/1",
        "/red/1%20x?k=v",
        "/red/",
        "/perm/1%20x?k=v",
        "/perm/1",
        "/abs/1%20x?k=v",
        "/abs/1?",
        "/abs2/1x?k=v",
        "/abs3/1x?k=v",
        "/abs4/a?b",
        "/abs5/a?b",
        "/loop/",
        "/count",
        "/counta",
        "/countaa?x",
        "/two/1",
        "/brk",
        "/then",
        "/then3",
        "/empty",
        "/none",
        "/relative/x",
        "/mark",
        "/dots",
        "/icase/z",
        "/in",
        "/internal/x",
        "/group",
        "/up/%2f",
        "/up/abc",
        "/slashes/a",
        "/hash/a?b=1",
    ]);
    cases.push(head("/red/x"));
    cases.push(head("/last/x"));
    cases.push(request("POST", "/red/x").field("Content-Length: 3").body("abc"));
    cases.push(request("POST", "/last/x").field("Content-Length: 3").body("abc"));
    cases.push(request("POST", "/rw/x").field("Content-Length: 3").body("abc"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn what_is_escaped() {
    let site = site();
    let lines = "
        location /o { rewrite ^/o(.*) /dst$1?u=$1&v=$arg_q; }
        location /o2 { rewrite ^/o2(.*) /x$1?u=$1&v=$arg_q redirect; }
        location /o3 { set $s \"a b?c%d\"; rewrite ^/o3(.*) /x$s?w=$s redirect; }
        location /o4 { rewrite ^/o4/(.*) http://h/$1?; }
        location /o5 { rewrite ^/o5(.*) \"http://h.example/a b$1?c d$1\"; }
        location ~ ^/o6/(?<n>.*)$ { rewrite ^/(...) /x/$n?v=$n&$1 redirect; }
        location ~ ^/o7/(.*)$ { return 301 /y/$1; }
        location /p1 { rewrite ^/p1(.*) /x%41%20%2f$1/$arg_v redirect; }
        location /p2 { rewrite ^/p2(.*) http://h/$arg_v$1?z=$arg_v&$1 redirect; }
        location /p3 { rewrite ^/p3(.*) /dst%41%2f$arg_v$1; }
        location /o8 { rewrite ^/o8/(.*)$ /dst?x=$1&y=$uri last; }
        location /dst { return 200 \"dst $uri $args\\n\"; }
        location ~ ^/s/(?<nn>.*)$ { set $v $1; set $w \"x$1\"; set $n $nn; return 200 \"[$1][$v][$w][$n]\"; }
        location ~ ^/s2/(.*)$ { set $v0 $1; rewrite ^/(..)/(.*)$ /q/$2; set $v $2; set $w \"y$2\";
            return 200 \"[$2][$v0][$v][$w]\"; }
        location ~ ^/s3/(.*)$ { rewrite ^/(..)/(.*)$ /q/$2?r=1; set $v $2; return 200 \"[$2][$v] $args\"; }
        location ~ ^/s4/(.*)$ { set $x \"a b\"; if ($x = $1) { return 200 plain; }
            set $x \"a%20b\"; if ($x = $1) { return 200 escaped; } return 200 neither; }
        location ~ ^/s5/(.*)$ { if (-f \"$document_root/$1\") { return 200 \"is file\"; } return 200 \"[$1] no\"; }
        location ~ ^/s6/(.*)$ { rewrite ^/zz /qq; set $v $1; return 200 \"[$v]\"; }
        location /s7 { rewrite ^/s7/(.*) /q; set $v $1; rewrite ^ /dst?r=$v&u=$1; }
        location /s8 { if ($uri ~ ^/s8/(.*)$) { set $v $1; } rewrite ^ /dst?x=$v; }
        if ($uri ~ ^/u/(.*)$) { set $sv $1; return 200 \"[$sv] [$1]\"; }
    ";
    compare(
        &Setup::server(&site, lines),
        gets(&[
            "/o/%20%3f%26%25%2b=?q=%20+&b=c",
            "/o/a&b",
            "/o/a&b+c",
            "/o/a&b%20",
            "/o/a\"b",
            "/o/a?q=%20",
            "/o2/%20%26%25%2b=%23%22%3c%3e;'(){}|%5c%5e[]%60%01%7f?q=%20",
            "/o2/a&b=:@\"<>'();,!*~`{}|\\^[]",
            "/o2/a+b=:@\"<>'();,!*~`{}|\\^[]",
            "/o2/a%3fb=:@\"<>'();,!*~`{}|\\^[]",
            "/o2/%c3%a9",
            "/o3",
            "/o4/a%20b?q",
            "/o5%20%25?q",
            "/o6/a&b%20",
            "/o7/a&b%20%3f",
            "/o8/a&b%20%3f",
            "/p1/?v=%41%20%2f%26%25%3cb",
            "/p1/%20?v=%41%20%2f%26%25%3cb",
            "/p1/?v=%zz%4z%5",
            "/p1/?v=%%41",
            "/p1/?v=%3fa%41",
            "/p1/%3f%41?v=%3fa%41",
            "/p1/?v=%00%1f%7e%7f%80%ff%24%23%22",
            "/p2/q?v=%41%20%2f%26%25%3cb",
            "/p2/%20q?v=%41%20%2f%26%25%3cb",
            "/p3/%61?v=%41",
            "/s/a&b",
            "/s/a&%20b",
            "/s2/a&b%20c",
            "/s3/a&b%20c",
            "/s4/a%20b",
            "/s5/%61.txt",
            "/s5/with%20space.txt",
            "/s6/x%20y",
            "/s7/a%20b",
            "/s8/a&b%20",
            "/u/a%20b&c",
            "/u/a&c",
        ]),
    );
}

#[test]
fn an_if_is_a_location() {
    let site = site();
    // Which settings hold shows by the root that the file comes from.
    let lines = "
        error_page 404 /errors/404.html;
        location /f { if ($arg_x) { root @ROOT@/dir; } if ($arg_y) { root @ROOT@/alias/target; } rewrite ^ /index.html break; }
        location /g { rewrite ^ /index.html break; if ($arg_x) { root @ROOT@/dir; } }
        location /h { if ($arg_x) { root @ROOT@/dir; break; } rewrite ^ /a.txt break; }
        location /i { if ($arg_x) { root @ROOT@/dir; return 200 in; } return 200 out; }
        location /j { if ($arg_x) { rewrite ^ /dst last; } return 200 out; }
        location /k { try_files /a.txt =404; if ($arg_x) { set $k 1; } }
        location /k2 { try_files /a.txt @named; if ($arg_x) { set $k 1; rewrite ^ /page.html break; } }
        location /l { root @ROOT@/dir; if ($arg_x) { rewrite ^ /f.txt break; } rewrite ^ /index.html break; }
        location /m { error_page 404 =200 /a.txt; if ($arg_x) { error_page 404 =201 /page.html; } }
        location /al/ { alias @ROOT@/alias/target/; if ($arg_x) { set $q 1; } if ($arg_r) { root @ROOT@/alias; } }
        location /target/ { alias @ROOT@/dir/; if ($arg_r) { root @ROOT@/alias; } }
        location ~ ^/an/(.*)$ { alias @ROOT@/alias/target/$1; if ($arg_x) { set $q 1; } }
        location /n { if ($arg_x = 1) { return 404; } if ($arg_x = 2) { return 302 /y; } if ($arg_x = 3) { return 444; }
            if ($arg_x = 4) { return 204; } if ($arg_x = 5) { return 403 \"text $status\"; } return 200 end; }
        location /o { if ($request_method = POST) { return 405; } return 200 \"$request_method\"; }
        location /p { return 200 outer; location /p/in { if ($arg_x) { return 200 inner; } } }
        location /outer { set $v outer; location /outer/in { return 200 \"[$v]\"; } }
        location @named { return 200 named; }
        location @named2 { if ($uri ~ ^/q/(.*)) { set $w $1; return 200 \"named2 $w\"; } return 200 \"no\"; }
        location /q { error_page 404 = @named2; }
        location @named3 { rewrite ^/r/(.*) /dst/$1 last; }
        location /r { error_page 404 = @named3; }
        location @named4 { rewrite ^/s/(.*) /page.html break; }
        location /s { error_page 404 = @named4; }
        location /dst { return 200 \"dst $uri $args\\n\"; }
        location /internal { internal; return 200 \"internal\"; }
    ";
    let mut cases = gets(&[
        "/f",
        "/f?x=1",
        "/f?x=1&y=1",
        "/f?y=1",
        "/g",
        "/g?x=1",
        "/h",
        "/h?x=1",
        "/h/f.txt?x=1",
        "/i",
        "/i?x=1",
        "/j",
        "/j?x=1",
        "/k",
        "/k?x=1",
        "/k2",
        "/k2?x=1",
        "/l",
        "/l?x=1",
        "/m",
        "/m?x=1",
        "/al/x.txt",
        "/al/x.txt?x=1",
        "/al/?x=1",
        "/target/x.txt",
        "/target/x.txt?r=1",
        "/target/f.txt",
        "/an/x.txt",
        "/an/x.txt?x=1",
        "/n",
        "/n?x=1",
        "/n?x=2",
        "/n?x=3",
        "/n?x=4",
        "/n?x=5",
        "/o",
        "/p",
        "/p/in",
        "/p/in?x=1",
        "/outer/in",
        "/q/z",
        "/r/z?a=b",
        "/s/z",
    ]);
    cases.push(request("POST", "/o").field("Content-Length: 0"));
    cases.push(head("/f?x=1"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn the_servers_own_script() {
    let site = site();
    let lines = "
        set $order 1;
        rewrite ^/srv(.*)$ /internal/srv$1;
        rewrite ^/last /dst/last last;
        rewrite ^/brk /dst/brk break;
        rewrite ^/red(.*) /x$1 redirect;
        if ($arg_srv) { rewrite ^/sv2 /dst/sv2; set $t $arg_srv; return 200 \"sv $t $uri\"; }
        if ($arg_stop) { break; }
        if ($request_method = PUT) { return 405; }
        if (-f $document_root/alias/target$uri) { rewrite ^(.*)$ /alias/target$1 last; }
        set $order \"${order}2\";
        rewrite ^/late /dst/late;
        location /internal { internal; return 200 \"internal $uri $order\"; }
        location /dst { return 200 \"dst $uri $args $order\\n\"; }
        location /again { rewrite ^ /late last; }
        location /order { return 200 $order; }
        location /try { try_files /nothing /late; }
        location @late { return 200 named$order; }
    ";
    let mut cases = gets(&[
        "/srv",
        "/last?x",
        "/brk",
        "/red/x?y",
        "/?srv=7",
        "/sv2/?srv=7",
        "/late",
        "/late?stop=1",
        "/order?stop=1",
        "/order",
        "/again",
        "/try",
        "/x.txt",
        "/internal",
    ]);
    cases.push(request("PUT", "/a.txt").field("Content-Length: 0"));
    compare(&Setup::server(&site, lines), cases);
    // Without locations, the settings of the server itself.
    compare(
        &Setup::server(&site, "rewrite ^/x /a.txt; rewrite ^/y /page.html last; if ($arg_z) { return 200 z; }"),
        gets(&["/x", "/y", "/x?z=1", "/none", "/"]),
    );
}
