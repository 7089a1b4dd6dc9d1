"""How the page of a comparison looks, in light and in dark. Contrast is at least that of WCAG 2.2 AA."""

LIGHT = {
    "ink": "#1c2024", "soft": "#565d66", "paper": "#ffffff", "panel": "#f5f6f8", "rule": "#d5d9de", "link": "#0b5cad",
    "line": "#0b5cad", "warn": "#8a3b00", "same": "#1c2024",
}  # fmt: skip
DARK = {
    "ink": "#e8eaed", "soft": "#a9b1ba", "paper": "#14171a", "panel": "#1d2125", "rule": "#3a4149", "link": "#8ab8ff",
    "line": "#8ab8ff", "warn": "#ffb27a", "same": "#e8eaed",
}  # fmt: skip
HEAT_LIGHT = (
    "#ffffff",
    "#eef4fb",
    "#e0ecf8",
    "#d1e3f5",
    "#c2daf2",
    "#b2d0ee",
    "#a2c6ea",
    "#92bce6",
    "#82b1e1",
    "#72a6dc",
)
HEAT_DARK = (
    "#14171a",
    "#16202c",
    "#18293c",
    "#1a314b",
    "#1c3a5a",
    "#1e4269",
    "#204a78",
    "#225286",
    "#245a94",
    "#2662a1",
)
"""Shades of a cell by tenths of its row, each against the ink of its scheme."""


def _variables(colours: dict[str, str], heat: tuple[str, ...]) -> str:
    named = [f"--{name}:{value}" for name, value in colours.items()]
    return ";".join([*named, *(f"--heat{place}:{value}" for place, value in enumerate(heat))])


STYLE = (
    f":root{{{_variables(LIGHT, HEAT_LIGHT)}}}"
    # Paper is white, whatever the screen is.
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK, HEAT_DARK)}}}}}"
    """
*{box-sizing:border-box}
body{margin:0 auto;max-width:68rem;padding:2rem 1.25rem 4rem;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.35rem;line-height:1.3;margin:3rem 0 .75rem;padding-top:1rem;border-top:1px solid var(--rule)}
h3{font-size:1.05rem;margin:2rem 0 .5rem}
p{max-width:44rem;margin:.75rem 0}
a{color:var(--link)}
a:focus-visible,.scroll:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-100rem}
.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.25rem .5rem}
header p,.aside,figcaption,caption,footer{color:var(--soft)}
nav ol{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;margin:1rem 0 0;padding:0}
nav a{display:inline-block;padding:.2rem 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(14rem,1fr));gap:1rem;margin:1rem 0}
.figures div{background:var(--panel);border-radius:.4rem;padding:.8rem 1rem}
.figures dt{color:var(--soft);font-size:.9rem}
.figures dd{margin:0}
.figures strong{display:block;font-size:1.7rem;line-height:1.3;font-variant-numeric:tabular-nums}
.figures span{color:var(--soft);font-size:.9rem}
.scroll{overflow-x:auto;margin:1.25rem 0}
table{border-collapse:collapse;min-width:24rem;font-size:.93rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding-bottom:.4rem;font-size:.9rem}
caption span{display:block;position:sticky;left:0;max-width:min(44rem,100vw - 2.5rem)}
th,td{padding:.32rem .9rem .32rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule);
overflow-wrap:anywhere}
thead th{font-weight:600;white-space:nowrap;overflow-wrap:normal;vertical-align:bottom}
td{min-width:6.5rem}
tbody th{font-weight:400;min-width:8rem}
.number,.heat td{min-width:0}
.number{text-align:right;white-space:nowrap;overflow-wrap:normal}
tr>:last-child{padding-right:.2rem}
.heat th,.heat td{padding:.45rem .8rem;text-align:right;border:1px solid var(--rule)}
.heat th:first-child{text-align:left}
.heat small{display:block;font-size:.8rem}
.heat .same{outline:2px solid var(--same);outline-offset:-2px}
.owner{font-weight:400;font-size:.85rem;color:var(--soft);border:1px solid var(--rule);border-radius:1rem;
padding:.05rem .6rem;margin-left:.4rem}
.owner:empty{display:none}
.warning{color:var(--warn);font-weight:600}
figure{margin:.75rem 0}
figcaption{font-size:.85rem}
svg{display:block;max-width:100%;height:auto}
.trend{width:30rem}
.square{width:20rem}
svg text{fill:var(--soft);font-size:12px}
.axis{stroke:var(--soft);stroke-width:1}
.frame{fill:none;stroke:var(--rule)}
.line{fill:none;stroke:var(--line);stroke-width:2;stroke-linejoin:round}
.whisker{stroke:var(--line);stroke-width:1.5}
.dot{fill:var(--line)}
.examples{padding-left:1.2rem}
.examples li{margin:.5rem 0}
code{font:.85rem/1.4 ui-monospace,"DejaVu Sans Mono",monospace;background:var(--panel);padding:.1rem .35rem;
border-radius:.25rem;overflow-wrap:anywhere;unicode-bidi:isolate}
footer{margin-top:4rem;border-top:1px solid var(--rule);font-size:.85rem}
@media(max-width:40rem){body{padding:1.25rem 1rem 3rem}h1{font-size:1.6rem}
caption span{max-width:calc(100vw - 2rem)}table{min-width:100%;font-size:.87rem}th,td{padding-right:.6rem}
.heat th,.heat td{padding:.4rem .5rem}
.scroll{background:linear-gradient(to right,var(--paper) 40%,transparent) 0 0/2rem 100% no-repeat local,
linear-gradient(to left,var(--paper) 40%,transparent) 100% 0/2rem 100% no-repeat local,
linear-gradient(to right,var(--rule),transparent) 0 0/.7rem 100% no-repeat,
linear-gradient(to left,var(--rule),transparent) 100% 0/.7rem 100% no-repeat}}
@media print{:root{color-scheme:light}body{max-width:none;padding:0;font-size:10pt}nav,.skip{display:none}
.scroll{overflow:visible}.heat td{print-color-adjust:exact;-webkit-print-color-adjust:exact}
h2,h3,caption{break-after:avoid}article,figure,tr,.figures div{break-inside:avoid}}
""" + "".join(f".heat{place}{{background:var(--heat{place})}}" for place in range(10))
)
"""The style sheet."""
