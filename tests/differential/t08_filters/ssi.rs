//! Server side includes: a page for each thing that commands may be or do.

use crate::harness::{Case, compare, get, head, raw, request};
use crate::site::{MTIME, site};
use freerun_testkit::{Setup, Site};

/// Pages about echo and the form of commands.
const ECHO: &[&str] = &[
    "a<!--# echo var=\"uri\" -->b",
    "<!--# echo var=\"nosuch\" -->",
    "<!--# echo var=\"nosuch\" default=\"def\" -->",
    "<!--# echo var=\"arg_x\" -->|<!--# echo var=\"arg_x\" encoding=\"none\" -->|<!--# echo var=\"arg_x\" encoding=\"url\" -->|<!--# echo var=\"arg_x\" encoding=\"entity\" -->",
    "<!--# echo var=\"uri\" encoding=\"bad\" -->z",
    "<!--# echo -->z",
    "<!--# echo default=\"d\" -->z",
    "<!--# echo var=\"uri\" bad=\"x\" -->z",
    "<!--# echo var=\"uri\" var=\"host\" -->z",
    "<!--#echo var=\"uri\"-->z",
    "<!--#  echo   var  =  \"uri\"   -->z",
    "<!--# echo var='uri' -->z",
    "<!--# echo var=uri -->z",
    "<!--# ECHO var=\"uri\" -->z",
    "<!--# echo VAR=\"uri\" -->z",
    "<!--# echo var=\"URI\" -->z",
    "<!-- # echo var=\"uri\" -->z",
    "<!--# echo var=\"uri\" --",
    "<!--# echo var=\"uri\"",
    "x<!---->y",
    "x<!--# -->y",
    "x<!--#-->y",
    "x<!--# bad -->y",
    "x<!--# bad x=\"y\" -->y",
    "x<!--# echo var=\"uri\" ->y-->z",
    "x<!--# echo var=\"uri\" --->z",
    "x<!--# echo var=\"uri\" ---->z",
    "<<!--# echo var=\"uri\" -->",
    "<!<!--# echo var=\"uri\" -->",
    "<!-<!--# echo var=\"uri\" -->",
    "<!--<!--# echo var=\"uri\" -->",
    "<!--#<!--# echo var=\"uri\" -->",
    "<!--# echo var=\"u\\ri\" -->z",
    "<!--# echo var=\"arg_x\" default=\"a\\\"b\" -->z",
    "<!--# echo var='nosuch' default='it\"s' -->z",
    "<!--# echo var=\"nosuch\" default=\"\" -->z",
    "<!--# echo var=\"nosuch\" default=\"$uri\" -->z",
    "<!--# echo var=\"nosuch\" default=\"<b>\" encoding=\"entity\" -->z",
    "<!--# echo var=\"http_foo\" -->|<!--# echo var=\"sent_http_content_type\" -->|<!--# echo var=\"arg_x\" -->|<!--# echo var=\"status\" -->|<!--# echo var=\"body_bytes_sent\" -->|<!--# echo var=\"cookie_c\" -->",
    "<!--# echo var=\"\" -->z",
    "<!--#\necho\n var=\"uri\"\n-->z",
    "<!--#\techo\tvar=\"uri\"\t-->z",
    "<!--# echo var=\"uri\"encoding=\"none\" -->z",
    "<!--# echo \"uri\" -->z",
    "<!--# echo var -->z",
    "<!--# echo var= -->z",
    "<!--# echo var=\"uri -->z",
    "<!--# echo = \"uri\" -->z",
    "<!--#echo var=\"uri\" -->\n<!--#echo var=\"host\" -->\n",
    "<!--# echo var=\"uri\" / -->z",
    "<!--# echo var=\"u{ri\" -->z",
    "<!--# echo var=\"uri\" --x-->z",
    "<!--# echo; -->z",
    "<!--# echo1 -->z",
    "<!--#\recho var=\"uri\" -->z",
    "<!--# echo v1=\"x\" -->z",
    "<!--# echo var=\"arg_x\" default=\"no\" -->z",
    "<!--# echo var=\"1\" -->|<!--# echo var=\"$uri\" -->",
    "<!--# echo var=\"uri\" encoding=\"none\" encoding=\"url\" -->",
];

/// Pages about set.
const SET: &[&str] = &[
    "<!--# set var=\"x\" value=\"y\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"$uri-${host}-$nosuch-\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"\\$uri\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" --><!--# echo var=\"x\" -->",
    "<!--# set value=\"x\" -->z",
    "<!--# set var=\"uri\" value=\"mine\" --><!--# echo var=\"uri\" -->",
    "<!--# set var=\"x\" value=\"\" -->[<!--# echo var=\"x\" -->]",
    "<!--# set var=\"x\" value=\"a$\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"a${uri\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"a$-b\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"1\" --><!--# set var=\"x\" value=\"${x}2\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"X\" value=\"1\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"a\\\\b\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"<a>&\" --><!--# echo var=\"x\" -->|<!--# echo var=\"x\" encoding=\"none\" -->",
    "<!--# set var=\"x\" value=\"${}\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"$x\" value=\"v\" --><!--# echo var=\"$x\" -->",
    "<!--# set var=\"x\" value=\"a\" value=\"b\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"$1$0\" --><!--# echo var=\"x\" -->",
    "<!--# set var=\"x\" value=\"'q'\" --><!--# echo var=\"x\" encoding=\"entity\" -->",
];

/// Pages about if.
const IF: &[&str] = &[
    "<!--# if expr=\"$arg_x\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = a\" -->Y<!--# elif expr=\"$arg_x = b\" -->B<!--# elif expr=\"$arg_x = c\" -->C<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x != a\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x = /^(a+)(?<n>b*)$/\" -->Y[<!--# echo var=\"1\" -->][<!--# echo var=\"n\" -->][<!--# echo var=\"0\" -->]<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x != /^a/\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x = $arg_y\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$uri\" -->a<!--# if expr=\"$uri\" -->b<!--# endif -->c<!--# endif -->d",
    "<!--# if expr=\"$nosuch\" -->a<!--# if expr=\"$uri\" -->b<!--# endif -->c<!--# endif -->d",
    "<!--# endif -->a<!--# else -->b",
    "<!--# if expr=\"$uri\" -->a<!--# else -->b<!--# else -->c<!--# endif -->d",
    "<!--# if expr=\"$uri\" -->a<!--# else -->b<!--# elif expr=\"$uri\" -->c<!--# endif -->d",
    "<!--# if expr=\"$uri\" -->a",
    "<!--# if expr=\"$nosuch\" -->a",
    "<!--# if expr=\"literal\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"0\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x=a\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x == a\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x ! a\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = /(/\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = /a\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x < b\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"  $arg_x   =   a  \" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"a = a\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x = 'a'\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x-$arg_y = a-b\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x = \" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"= a\" -->Y<!--# else -->N<!--# endif -->",
    "<!--# if expr=\"$arg_x = /A/i\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = /a b/\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = /a\\/b/\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"/a/ = a\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = /$arg_y/\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = //\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$uri\" expr=\"$uri\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$nosuch\" --><!--# bad --><!--# set var=\"q\" value=\"1\" --><!--# endif -->[<!--# echo var=\"q\" -->]",
    "<!--# if bad=\"x\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x\" x=\"y\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$uri\" -->a<!--# endif --><!--# if expr=\"$nosuch\" -->b<!--# endif -->c",
    "<!--# elif expr=\"$uri\" -->a<!--# endif -->z",
    "<!--# if expr=\"$arg_x = a b\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x !=a\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"!$arg_x\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# else x=\"y\" -->a<!--# endif x=\"y\" -->b",
    "<!--# if expr=\"$arg_x=/a/\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"${arg_x} = a\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$uri\" -->a<!--# else -->b<!--# if expr=\"$uri\" -->c<!--# endif -->d<!--# endif -->e",
    "<!--# if expr=\"$nosuch = $nosuch\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$nosuch = x\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$nosuch != x\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$(x)\" -->Y<!--# else -->N<!--# endif -->z",
    "<!--# if expr=\"$arg_x = /(?<w>a)(?<v>x)?/\" --><!--# endif --><!--# if expr=\"b = /b/\" -->[<!--# echo var=\"w\" -->][<!--# echo var=\"v\" -->]<!--# endif -->",
];

/// Pages about config.
const CONFIG: &[&str] = &[
    "<!--# config timefmt=\"%Y\" --><!--# echo var=\"date_gmt\" -->",
    "<!--# config timefmt=\"%A, %H\" errmsg=\"x\" --><!--# bad -->",
    "<!--# config -->z",
    "<!--# config sizefmt=\"x\" -->z",
    "<!--# config errmsg=\"$uri\" --><!--# bad -->",
    "<!--# config timefmt=\"\" -->[<!--# echo var=\"date_gmt\" -->]",
    "<!--# config timefmt=\"%Q%%%n%t%e%j%\" -->[<!--# echo var=\"date_local\" -->]",
];

/// Pages about include and block.
const INCLUDE: &[&str] = &[
    "a<!--# include virtual=\"/before\" -->b",
    "a<!--# include virtual=\"\" -->b",
    "a<!--# include file=\"\" -->b",
    "a<!--# include virtual=\"?x=y\" -->b",
    "a<!--# include file=\"near.txt\" -->b",
    "a<!--# include virtual=\"near.txt\" -->b",
    "<!--# include file=\"/before\" -->",
    "<!--# include file=\"../before\" -->",
    "<!--# include virtual=\"../before\" -->",
    "<!--# include virtual=\"/../before\" -->",
    "a<!--# include virtual=\"/none\" -->b",
    "<!--# include -->z",
    "<!--# include virtual=\"/before\" file=\"near.txt\" -->z",
    "<!--# include virtual=\"/q?x=$arg_x\" -->z",
    "<!--# include virtual=\"/%62.txt\" -->z",
    "<!--# include virtual=\"/before#f\" -->z",
    "<!--# include virtual=\"/s/uri?y\" -->z",
    "<!--# include virtual=\"/r444\" -->z",
    "<!--# include virtual=\"/r500\" -->z",
    "<!--# include virtual=\"/r204\" -->z",
    "<!--# include virtual=\"http://localhost/before\" -->z",
    "<!--# include virtual=\"/before\" bad=\"x\" -->z",
    "<!--# include virtual=\"$uri\" -->z",
    "<!--# include virtual=\"/before\" set=\"v\" -->[<!--# echo var=\"v\" -->]",
    "<!--# include virtual=\"/before\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" -->]",
    "<!--# include virtual=\"/none\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" -->]",
    "<!--# include virtual=\"/before\" wait=\"no\" -->z",
    "<!--# include virtual=\"/before\" wait=\"maybe\" -->z",
    "<!--# include virtual=\"/big\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" -->]",
    "<!--# block name=\"one\" -->STUB<!--# endblock --><!--# include virtual=\"/none\" stub=\"one\" -->z",
    "<!--# block name=\"one\" -->STUB<!--# endblock --><!--# include virtual=\"/r200e\" stub=\"one\" -->z",
    "<!--# block name=\"one\" -->STUB<!--# endblock --><!--# include virtual=\"/before\" stub=\"one\" -->z",
    "<!--# include virtual=\"/none\" stub=\"nosuch\" -->z",
    "<!--# block name=\"one\" -->S<!--# echo var=\"uri\" --><!--# endblock --><!--# include virtual=\"/r500\" stub=\"one\" -->z<!--# include virtual=\"/r500\" stub=\"one\" -->",
    "<!--# block name=\"one\" -->S<!--# include virtual=\"/before\" --><!--# endblock --><!--# include virtual=\"/r500\" stub=\"one\" -->z",
    "<!--# block -->S<!--# endblock -->z",
    "<!--# block name=\"one\" -->S",
    "<!--# endblock -->z",
    "<!--# block name=\"a\" -->A<!--# block name=\"b\" -->B<!--# endblock -->C<!--# endblock -->[<!--# include virtual=\"/none\" stub=\"a\" -->][<!--# include virtual=\"/none\" stub=\"b\" -->]",
    "<!--# block name=\"a\" --><!--# if expr=\"$uri\" -->Y<!--# else -->N<!--# endif --><!--# endblock -->[<!--# include virtual=\"/none\" stub=\"a\" -->]",
    "<!--# block name=\"a\" -->1<!--# endblock --><!--# block name=\"a\" -->2<!--# endblock -->[<!--# include virtual=\"/none\" stub=\"a\" -->]",
    "<!--# block name=\"a\" -->[<!--# echo var=\"x\" -->]<!--# endblock --><!--# set var=\"x\" value=\"later\" -->[<!--# include virtual=\"/none\" stub=\"a\" -->]",
    "<!--# set var=\"x\" value=\"outer\" --><!--# include virtual=\"/s/inner\" -->[<!--# echo var=\"x\" -->|<!--# echo var=\"y\" -->]",
    "<!--# set var=\"x\" value=\"outer\" --><!--# include virtual=\"/s/inner\" wait=\"yes\" -->[<!--# echo var=\"y\" -->]",
    "<!--# include virtual=\"/dir/\" -->|<!--# include virtual=\"/dir\" -->",
    "<!--# include virtual=\"/before\" virtual=\"/near.txt\" -->z",
    "<!--# include file=\"%62.txt\" -->z",
    "<!--# include file=\"near.txt?x\" -->z",
    "<!--# include virtual=\"/before\" stub=\"one\" set=\"x\" -->z",
    "<!--# config errmsg=\"E\" --><!--# include virtual=\"/s/bad\" --><!--# bad -->",
    "<!--# if expr=\"$nosuch\" --><!--# include virtual=\"/before\" --><!--# endif -->z",
    "<!--# include virtual=\"/int\" -->z",
    "<!--# include virtual=\"@named\" -->z",
    "<!--# include virtual=\"/%2e%2e/before\" -->z",
    "<!--# include virtual=\"/q?a=%20&b=c d\" -->z",
    "<!--# include virtual=\"/s/uri\" -->|<!--# include virtual=\"/s/arg?x=%3Ca%3E\" -->",
    "<!--# include virtual=\"/page\" --><!--# include virtual=\"/after\" --><!--# include virtual=\"/before\" -->",
    "<!--# include virtual=\"/r404t\" -->z",
    "<!--# include virtual=\"/none\" set=\"v\" -->z",
    "<!--# include virtual=\"/r301\" -->z",
    "<!--# block name=\"one\" -->STUB<!--# endblock --><!--# include virtual=\"/r404t\" stub=\"one\" -->z",
    "<!--# block name=\"one\" -->STUB<!--# endblock --><!--# include virtual=\"/r204\" stub=\"one\" -->z",
    "<!--# block name=\"one\" -->STUB<!--# endblock --><!--# include virtual=\"/r301\" stub=\"one\" -->z",
    "<!--# include virtual=\"/before\" set=\"v\" stub=\"x\" wait=\"yes\" -->[<!--# echo var=\"v\" -->]",
    "<!--# include virtual=\"/slowish\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" default=\"D\" -->]",
    "<!--# include virtual=\"/empty.html\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" default=\"D\" -->]",
    "<!--# include virtual=\"/s/uri\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" default=\"D\" encoding=\"none\" -->]",
    "<!--# include virtual=\"/before\" set=\"v\" wait=\"yes\" -->[<!--# if expr=\"$v = BEFORE\" -->Y<!--# endif -->]",
];

/// Pages about commands together.
const MIXED: &[&str] = &[
    "<!--# if expr=\"$uri\" -->a<!--# else x=\"y\" -->b<!--# endif x=\"y\" -->c",
    "<!--# if expr=\"$nosuch\" -->a<!--# bad = -->b<!--# echo -->c<!--# else -->d<!--# endif -->e",
    "<!--# if expr=\"$nosuch\" -->a<!--# elif -->b<!--# else -->d<!--# endif -->e",
    "<!--# if expr=\"$uri\" -->a<!--# elif -->b<!--# else -->d<!--# endif -->e",
    "<!--# if expr=\"$uri\" -->a<!--# elif expr=\"$uri ! x\" -->b<!--# else -->d<!--# endif -->e",
    "<!--# if expr=\"$nosuch\" -->a<!--# elif expr=\"$uri ! x\" -->b<!--# else -->d<!--# endif -->e",
    "<!--# block name=\"x\" -->a<!--# if expr=\"$uri\" -->b<!--# endblock -->c<!--# endif -->d",
    "<!--# if expr=\"$nosuch\" --><!--# block name=\"x\" -->a<!--# endblock --><!--# endif -->b<!--# include virtual=\"/none\" stub=\"x\" -->",
    "<!--# if expr=\"$nosuch\" --><!--# block name=\"x\" -->a<!--# endif -->b",
    "<!--# block name=\"x\" -->a<!--# bad=\"x -->b<!--# endblock -->c<!--# include virtual=\"/none\" stub=\"x\" -->",
    "<!--# block name=\"x\" -->a<!--#echo   var = \"uri\"  default='q\"q'--> <!-- c --><!--# endblock z=\"y\" -->c<!--# include virtual=\"/none\" stub=\"x\" -->",
    "<!--# block name=\"x\" --><!--# endblock -->[<!--# include virtual=\"/none\" stub=\"x\" -->]",
    "<!--# block name=\"$uri\" -->S<!--# endblock -->[<!--# include virtual=\"/none\" stub=\"/s/m12\" -->]",
    "<!--# block name=\"X\" -->S<!--# endblock -->[<!--# include virtual=\"/none\" stub=\"x\" -->]",
    "<!--# block name=\"a\" -->S<!--# endblock -->[<!--# include virtual=\"/s/stubs\" -->]",
    "<!--# block name=\"a\" -->S<!--# endblock -->[<!--# include virtual=\"/epn\" stub=\"a\" -->]",
    "<!--# include virtual=\"/epn\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" -->]",
    "<!--# include virtual=\"/r404t\" set=\"v\" wait=\"yes\" -->[<!--# echo var=\"v\" -->]",
    "<!--# block name=\"a\" -->S<!--# echo var=\"uri\" -->|<!--# echo var=\"args\" --><!--# endblock -->[<!--# include virtual=\"/ssi/none?q\" stub=\"a\" -->]<!--# include virtual=\"/ssi/empty\" stub=\"a\" -->",
    "<!--# include virtual=\"/a..b\" -->|<!--# include virtual=\"/q?../\" -->|<!--# include virtual=\"/s/..\" -->|<!--# include virtual=\"/q%3fx\" -->|<!--# include virtual=\"/q?a%00b\" -->|<!--# include virtual=\"..\" -->|<!--# include virtual=\"/s\\..\\b\" -->|<!--# include virtual=\"/../q\" -->|<!--# include virtual=\"/q/../q\" -->|<!--# include virtual=\"/q%00\" -->",
    "<!--# echo var=\"x\" encoding=\"url\" -->",
    "<!--# set var=\"x\" value='\"' --><!--# echo var=\"x\" encoding=\"url\" -->",
    "<!--# if expr=\"$uri\" -->a<!--# set var=\"z\" value=\"1\" --><!--# echo var=\"z\" --><!--# endif -->",
    "<!--# include virtual=\"/s/open\" --><!--# if expr=\"$uri\" -->x",
    "<!--# echo var=\"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\" -->z",
    "<!--# echo var=\"nosuch\" default=\"ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd\" -->z",
    "<!--# cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc -->z",
    "<!--# echo pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp=\"x\" -->z",
    "<!--# echo pa=\"x\" pb=\"x\" pc=\"x\" pd=\"x\" pe=\"x\" pf=\"x\" pg=\"x\" ph=\"x\" pi=\"x\" pj=\"x\" pk=\"x\" pl=\"x\" pm=\"x\" pn=\"x\" po=\"x\" pp=\"x\" pq=\"x\" pr=\"x\" ps=\"x\" pt=\"x\" -->z",
    "<!--# config timefmt=\"%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y%Y\" --><!--# echo var=\"date_gmt\" -->",
    "<!--# echo var=\"v:x\" -->",
    "<!--# set var=\"date_gmt\" value=\"q\" --><!--# echo var=\"date_gmt\" -->",
    "<!--# config errmsg=\"a\" errmsg=\"b\" -->z",
    "<!--# block name=\"a\" name=\"b\" -->x<!--# endblock -->z",
    "<!--# if expr=\"$uri\" --><!--# include virtual=\"/before\" --><!--# else --><!--# include virtual=\"/near.txt\" --><!--# endif -->",
    "<!--# include virtual=\"/before\" wait=\"yes\" wait=\"no\" -->z",
    "<!--# include file=\"near.txt\" stub=\"x\" wait=\"yes\" -->",
    "<!--# include virtual=\"/before\" wait=\"\" -->z",
    "<!--# include virtual=\"/before\" set=\"\" -->[<!--# echo var=\"\" -->]",
    "<!--# include virtual=\"/before\" stub=\"\" -->z",
    "<!--# include virtual=\"/before\" set=\"uri\" -->[<!--# echo var=\"uri\" -->]",
    "<!--# if expr=\"$arg_x = /(a+)/\" --><!--# include virtual=\"/s/captured\" -->[<!--# echo var=\"1\" -->]<!--# endif -->[<!--# echo var=\"1\" -->]",
    "<!--# set var=\"1\" value=\"one\" --><!--# echo var=\"1\" -->",
];

/// Conditions.
const CONDITIONS: &[&str] = &[
    "$arg_x = /^(a+)(?<n>b*)/",
    "$arg_x = /^(a+)(?<n>b*)\\$/",
    "$arg_x = /^(a+)(?P<n>b*)/",
    "$arg_x   =   aab",
    " $arg_x = aab",
    "$arg_x = aab ",
    "$arg_x=aab",
    "$arg_x= aab",
    "$arg_x =aab",
    "$arg_x!=aab",
    "$arg_x ! = aab",
    "$arg_x = $arg_x",
    "'aab' = 'aab'",
    "\\$arg_x = \\$arg_x",
    "a-b = a-b",
    "a = a-b",
    "aab = $arg_x",
    "$arg_x$arg_x = aabaab",
    "${arg_x}c = aabc",
    "x$arg_x",
    "a.b",
    "a b",
    "$arg_x aab",
    "$arg_x = /AAB/",
    "$arg_x = /(a)(a)(b)(c)?/",
    "$arg_x = /a{2}b/",
    "$arg_x = /[a-c]+/",
    "$arg_x != /x(y)/",
    "$arg_x = /(a/ ",
    "$arg_x = /a\\.b/",
    "$arg_x =   /aab/",
    "$arg_x=/aab/",
    "$arg_x = /aab/ ",
    "$arg_x = a = b",
    "$1 = a",
    "a_b1",
    "/aab/",
    "$arg_x = aab\\$",
    "$arg_x = /",
    "{x} = {x}",
    "$arg_x = //x/",
    "$date_gmt",
    "$arg_x > a",
    "$arg_x ==aab",
    "aab= aab",
    "$arg_x = /a\\\\ab/",
    "!= x",
    "!=",
    "=",
    "$arg_x =",
    "$arg_x !",
    "$arg_x != ",
    "$arg_x = /b\\z/",
    "$arg_x = /(?<uri>a)/",
    "$uri = aab",
    "-",
    "$host",
    "$arg_x =\taab",
    "a\t= a",
    "$arg_x = é",
    "é = é",
    "\\ = \\",
];

const LINES: &str = "
    location /s/ { ssi on; default_type text/html; types {} }
    location = /before { return 200 BEFORE; }
    location = /after { return 200 AFTER; }
    location = /page { return 200 \"<p>page\n\"; }
    location = /big { alias @ROOT@/big.bin; }
    location = /r444 { return 444; }
    location = /r500 { return 500; }
    location = /r204 { return 204; }
    location = /r200e { return 200 \"\"; }
    location = /r404t { return 404 \"text of 404\"; }
    location = /r301 { return 301 /x; }
    location = /int { internal; return 200 int; }
    location @named { return 200 named; }
    location = /slowish { return 201 created; }
    location = /epn { error_page 404 /before; return 404; }
    location /ssi/ { ssi on; default_type text/html; types {} }
    location = /ssi/empty { ssi on; alias @ROOT@/empty.txt; }
    location = /a..b { return 200 $uri; }
    location /q { return 200 \"[$uri|$args]\"; }
    location = /... { return 200 $uri; }
";

/// Pages that others include.
const INNER: &[(&str, &str)] = &[
    ("uri", "a<!--# echo var=\"uri\" -->b"),
    ("arg", "<!--# echo var=\"arg_x\" -->|<!--# echo var=\"arg_x\" encoding=\"url\" -->"),
    ("inner", "(<!--# echo var=\"x\" --><!--# set var=\"y\" value=\"inner\" -->)"),
    ("bad", "<!--# bad -->"),
    ("stubs", "(<!--# include virtual=\"/none\" stub=\"a\" -->)"),
    ("open", "<!--# if expr=\"$nosuch\" -->no"),
    ("captured", "(<!--# echo var=\"1\" --><!--# set var=\"k\" value=\"$1\" --><!--# echo var=\"k\" -->)"),
    ("near.txt", "ST"),
];

/// A site with these pages in `/s/`, and the requests for them.
fn pages(pages: &[String]) -> (Site, Vec<Case>) {
    let site = site();
    for (name, page) in INNER {
        site.dated(&format!("s/{name}"), page, MTIME);
    }
    site.dated("dir/index.html", "<i>dir</i>", MTIME);
    let mut cases = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        site.dated(&format!("s/{number}"), page, MTIME);
        let line = format!("GET /s/{number}?x=aab&y=a&z=%3Ca%20b%3E\"'& HTTP/1.1\r\n");
        cases.push(raw(format!("{line}Host: localhost\r\nFoo: <foo>\r\nCookie: c=d\r\n\r\n")));
    }
    (site, cases)
}

fn compare_pages(list: &[&str]) {
    let (site, cases) = pages(&list.iter().map(|page| (*page).to_owned()).collect::<Vec<_>>());
    compare(&Setup::server(&site, LINES), cases);
}

#[test]
fn echoes() {
    compare_pages(ECHO);
}

#[test]
fn sets() {
    compare_pages(SET);
}

#[test]
fn ifs() {
    compare_pages(IF);
}

#[test]
fn configs() {
    compare_pages(CONFIG);
}

#[test]
fn includes() {
    compare_pages(INCLUDE);
}

#[test]
fn mixed() {
    compare_pages(MIXED);
}

#[test]
fn conditions() {
    let page = |expr: &&str| {
        let found = "Y[<!--# echo var=\"1\" -->][<!--# echo var=\"n\" -->][<!--# echo var=\"0\" -->]";
        format!("<!--# if expr=\"{expr}\" -->{found}<!--# else -->N<!--# endif -->")
    };
    let (site, cases) = pages(&CONDITIONS.iter().map(page).collect::<Vec<_>>());
    compare(&Setup::server(&site, LINES), cases);
}

#[test]
fn every_byte_in_each_encoding() {
    let bytes: String = (1..=255u8).map(|byte| format!("%{byte:02x}")).collect();
    let site = site();
    // The path is decoded, so any byte can stand in it.
    let page = |encoding: &str| format!("<!--# echo var=\"uri\" encoding=\"{encoding}\" -->");
    let lines = format!(
        "ssi on; ssi_types *; location / {{ return 200 '{}|{}|{}'; }}",
        page("none"),
        page("url"),
        page("entity")
    );
    compare(&Setup::server(&site, &lines), vec![get(&format!("/{bytes}"))]);
}

#[test]
fn what_is_looked_into_and_what_its_head_becomes() {
    let site = site();
    site.dated("s/uri", INNER[0].1, MTIME).dated("s/bad", INNER[3].1, MTIME);
    let lines = "
        ssi on; types {} default_type text/html;
        location = /a { alias @ROOT@/s/uri; }
        location = /lm { ssi_last_modified on; alias @ROOT@/s/uri; }
        location = /plain { alias @ROOT@/a.txt; }
        location = /long { alias @ROOT@/big.bin; }
        location = /empty { alias @ROOT@/empty.txt; }
        location = /types { default_type text/x; alias @ROOT@/s/uri; }
        location = /types2 { default_type text/x; ssi_types text/x; alias @ROOT@/s/uri; }
        location = /any { default_type text/x; ssi_types *; alias @ROOT@/s/uri; }
        location = /off { ssi off; alias @ROOT@/s/uri; }
        location = /ret { return 200 'x<!--# echo var=\"uri\" -->'; }
        location = /ret404 { return 404 'x<!--# echo var=\"status\" -->'; }
        location = /ret201 { return 201 'x<!--# echo var=\"status\" -->'; }
        location = /ret0 { return 200 ''; }
        location = /r301 { return 301 /a; }
        location = /r204 { return 204; }
        location = /ep { error_page 404 /a; return 404; }
        location = /silent { ssi_silent_errors on; alias @ROOT@/s/bad; }
        location = /v4 { ssi_value_length 4; return 200 '<!--# echo var=\"abcd\" -->|<!--# echo var=\"abcde\" -->'; }
        location = /v0 { ssi_value_length 0; return 200 '<!--# echo var=\"\" -->|<!--# echo var=\"a\" -->'; }
        location = /v256 { ssi_value_length 256; return 200 '<!--# echo var=\"@256@\" -->|<!--# echo var=\"1@256@\" -->'; }
        location = /c32 { return 200 '<!--# @32@ -->|<!--# 1@32@ -->'; }
        location = /p32 { return 200 '<!--# echo @32@=\"\" -->|<!--# echo 1@32@=\"\" -->'; }
        location = /p16 { return 200 '<!--# echo @16@-->|<!--# echo x=\"\"@16@-->'; }
        location = /add { add_after_body /add2; return 200 'x<!--# echo var=\"uri\" -->'; }
        location = /add2 { return 200 'y<!--# echo var=\"uri\" -->'; }
        location = /set { return 200 'A<!--# include virtual=\"/digits\" set=\"v\" -->[<!--# echo var=\"v\" -->]'; }
        location = /setbig { return 200 'A<!--# include virtual=\"/big\" set=\"v\" -->[<!--# echo var=\"v\" -->]'; }
        location = /digits { alias @ROOT@/digits; }
        location = /big { subrequest_output_buffer_size 300k; alias @ROOT@/big.bin; }
    "
    .replace("@256@", &"v".repeat(256))
    .replace("@32@", &"c".repeat(32))
    .replace("@16@", &" a=\"\"".repeat(16));
    let mut cases: Vec<_> = [
        "/a", "/lm", "/plain", "/long", "/empty", "/types", "/types2", "/any", "/off", "/ret", "/ret404", "/ret201",
        "/ret0", "/r301", "/r204", "/ep", "/silent", "/v4", "/v0", "/v256", "/c32", "/p32", "/p16", "/add", "/set",
        "/setbig", "/nofile", "/dir",
    ]
    .into_iter()
    .map(|target| raw(format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n")))
    .collect();
    cases.extend([
        get("/a"),
        head("/a"),
        head("/lm"),
        head("/empty"),
        head("/nofile"),
        head("/r301"),
        raw("GET /a\r\n"),
        get("/a").field("Range: bytes=0-1"),
        get("/lm").field("Range: bytes=0-1"),
        get("/empty").field("Range: bytes=0-1"),
        get("/a").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        get("/lm").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        request("POST", "/ret").field("Content-Length: 3").body("abc"),
        raw("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /ret HTTP/1.1\r\nHost: a\r\n\r\n").responses(2),
    ]);
    compare(&Setup::server(&site, &lines), cases);
}
