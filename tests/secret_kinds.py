"""Made-up secrets by issuer, by name and by place, and harmless texts that look like them."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable
from typing import Final

_LETTERS: Final = {
    "h": string.hexdigits.lower()[:16],
    "H": string.hexdigits.upper()[-6:] + string.digits,
    "a": string.ascii_letters + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "U": string.ascii_uppercase,
    "L": string.ascii_lowercase,
}
_PART: Final = re.compile(r"\{([hHaulwbdUL])(\d+)\}|\{uuid\}")

ISSUED: Final[dict[str, tuple[str, ...]]] = {
    "Amazon": ("AKIA{u16}", "ASIA{u16}"),
    "GitHub": ("ghp_{a36}", "gho_{a36}", "ghs_{a36}", "github_pat_{a22}_{a59}"),
    "GitLab": ("glpat-{w20}", "glrt-{w20}", "gldt-{w20}", "glptt-{h40}", "GR1348941{w20}"),
    "Slack": ("xoxb-{d12}-{d12}-{a24}", "xapp-1-{u11}-{d13}-{h64}"),
    "Slack webhook": ("https://hooks.slack.com/services/T{u8}/B{u8}/{a24}",),
    "Google": ("AIza{w35}", "GOCSPX-{w28}", "ya29.{w60}"),
    "Hugging Face": ("hf_{a34}",),
    "Stripe": ("sk_live_{a24}", "rk_test_{a24}", "whsec_{a32}"),
    "npm": ("npm_{a36}",),
    "PyPI": ("pypi-AgEIcHlwaS5vcmc{w60}",),
    "RubyGems": ("rubygems_{h48}",),
    "NuGet": ("oy2{l43}",),
    "Docker": ("dckr_pat_{w27}",),
    "age": ("AGE-SECRET-KEY-1{u58}",),
    "Airtable": ("pat{a14}.{h64}",),
    "Alibaba": ("LTAI{a20}",),
    "Anthropic": ("sk-ant-api03-{w93}AA",),
    "OpenAI": ("sk-proj-{w60}", "sk-{a20}T3BlbkFJ{a20}"),
    "Atlassian": ("ATATT3{w180}", "ATBB{a32}"),
    "Azure": ("AccountKey={b86}==", "{a3}8Q~{w34}"),
    "Brevo": ("xkeysib-{h64}-{a16}",),
    "Buildkite": ("bkua_{h40}",),
    "CircleCI": ("CCIPAT_{a22}_{h40}",),
    "Contentful": ("CFPAT-{w43}",),
    "Databricks": ("dapi{h32}", "dapi{h32}-2"),
    "DigitalOcean": ("dop_v1_{h64}", "doo_v1_{h64}"),
    "Discord": ("MT{w22}.{w6}.{w27}", "OD{w22}.{w6}.{w38}"),
    "Doppler": ("dp.pt.{a43}", "dp.st.dev.{a43}"),
    "Duffel": ("duffel_live_{w43}",),
    "Dynatrace": ("dt0c01.{u24}.{u64}",),
    "EasyPost": ("EZAK{a54}",),
    "Figma": ("figd_{w40}",),
    "Fly.io": ("fo1_{w43}",),
    "Grafana": ("glsa_{a32}_{h8}", "glc_{b60}"),
    "Groq": ("gsk_{a52}",),
    "Vault": ("hvs.{w90}", "hvb.{w100}"),
    "Terraform": ("{a14}.atlasv1.{w67}",),
    "Heroku": ("HRKU-{uuid}",),
    "HubSpot": ("pat-na1-{uuid}",),
    "LangSmith": ("lsv2_pt_{h32}_{h10}",),
    "Linear": ("lin_api_{a40}",),
    "Mailchimp": ("{h32}-us12",),
    "Mailgun": ("key-{h32}",),
    "New Relic": ("NRAK-{u27}", "NRII-{w32}"),
    "Notion": ("ntn_{d11}{a35}", "secret_{a43}"),
    "Netlify": ("nfp_{a36}",),
    "NVIDIA": ("nvapi-{w64}",),
    "Perplexity": ("pplx-{a48}",),
    "Pinecone": ("pcsk_{a6}_{a63}",),
    "PlanetScale": ("pscale_tkn_{w43}",),
    "Postman": ("PMAK-{h24}-{h34}",),
    "Prefect": ("pnu_{a36}",),
    "Pulumi": ("pul-{h40}",),
    "ReadMe": ("rdme_{l70}",),
    "Replicate": ("r8_{a37}",),
    "Resend": ("re_{a8}_{a24}",),
    "SendGrid": ("SG.{w22}.{w43}",),
    "Sentry": ("sntryu_{h64}", "https://{h32}@o{d6}.ingest.sentry.io/{d7}"),
    "Shippo": ("shippo_live_{h40}",),
    "Shopify": ("shpat_{h32}", "shpss_{h32}"),
    "SonarQube": ("squ_{h40}",),
    "Square": ("sq0atp-{w22}", "sq0csp-{w43}"),
    "Supabase": ("sbp_{h40}",),
    "Tailscale": ("tskey-auth-{a12}-{a32}",),
    "Telegram": ("{d10}:AA{w33}",),
    "Tencent": ("AKID{a32}",),
    "Twilio": ("SK{h32}", "AC{h32}:{h32}", "AC{h32} {h32}"),
    "Vercel": ("vcp_{a24}",),
    "xAI": ("xai-{a80}",),
}
"""Forms of keys by issuer: ``{h32}`` are 32 hexadecimal digits, ``{a}`` letters and digits, ``{w}`` with - and _."""
CHOSEN: Final[dict[str, tuple[str, ...]]] = {
    "Amazon Bedrock": ("ABSK{b110}==", "bedrock-api-key-{b80}=="),
    "Defined Networking": ("dnkey-{w26}-{w52}",),
    "Firecrawl": ("fc-{h32}",),
    "Harness": ("pat.{w22}.{h24}.{a20}",),
    "Intra42": ("s-s4t2ud-{h64}",),
    "LaunchDarkly": ("sdk-{uuid}", "api-{uuid}"),
    "Novu": ("novu_secret_{h32}",),
    "Paddle": ("pdl_live_apikey_{l26}_{a22}_{a3}",),
    "Svix": ("whsec_{b32}",),
}
"""More issuers. The general rules missed most of these, so they are no sample of unknown issuers."""

NAMED: Final = (
    "token={h32}",
    '"token": "{h40}"',
    "https://api.example.org/v1?key={h32}&page=2",
    "Pwd={a10}7;",
    "DB_PASS={L6}7{L4}",
    "RAILS_MASTER_KEY={h32}",
    '"auth": "{b38}5=="',
    "    token: {w60}7",
    "private_key=0x{h64}",
    "api_key: {h32}",
    "DB_PASSWORD={L6}{L5}{L6}{L5}",
    "password={L6}7",
    "password = 'p({L5}[{d3}'",
    'password: "{L5}true{d2}x"',
    "SECRET={L4}your{L4}{d2}",
    "dbPass={a12}9",
    "db-pass: {a12}9",
    "client_secret={a40}",
    "ACCESS_TOKEN={a32}4",
    '{"passphrase": "{L5}-{L5}-{L5}-{d2}"}',
    "auth_token={uuid}7{a8}",
    "signing_key={h64}",
    "session_token={b120}",
    "export GITHUB_TOKEN={h40}",
    "refreshToken: '{a40}'",
    "credentials={a20}8",
    "encryptionKey={b43}=",
    "bot_token={h32}",
    "RAILWAY_TOKEN={uuid}",
    "<password>{a12}7</password>",
    "<clientSecret>{a20}</clientSecret>",
)
PLACED: Final = (
    "Authorization: Basic {b20}{d2}==",
    "Authorization: Bearer {w40}5",
    "Cookie: sessionid={h32}",
    "Set-Cookie: sid={a32}7; Path=/",
    "redis://:{a12}5@cache.internal:6379/0",
    "https://{h40}@github.com/org/repo.git",
    "postgresql://app:{L4}/{a8}3@db/app",
    "mongodb+srv://root:{a14}4@cluster0.example.net",
    "mysql -u root -p{a8}5 shop",
    "mysqldump -h db -u app -p'{a10}6' shop",
    "curl -u admin:{a12}8 https://api.example.org",
    "sshpass -p {a10}4 ssh host",
    "tool --password {a9}6",
    "tool --token={h32}",
    "machine api.example.org login me password {a12}1",
    "deploy --api-key {a32}2",
    "amqp://guest:{a10}7@rabbit:5672//",
    "Authorization: Splunk {uuid}",
    "Authorization: SSWS 00{w40}",
    "redis-cli -h cache -a {a20} ping",
    "bindpw {a14}3",
    "ConvertTo-SecureString '{a12}4' -AsPlainText -Force",
    "~/.pgpass: db.internal:5432:shop:app:{a16}",
    "https://a.blob.core.windows.net/c/f?sv=2023-01-03&sr=b&sig={a20}%2B{a22}%3D",
    "admin:$apr1${a8}${a22}",
    "root:$6${a16}${a86}:19000:0:99999:7:::",
    "$2b$12${a53}",
    "$argon2id$v=19$m=65536,t=3,p=4${b22}${b43}",
)
COMMANDS: Final = (
    "machine h login u password {}",
    "machine api.example.org login me account it password {}",
    "default login me password {}",
    "mysql -u root -p{} shop",
    "curl -u admin:{} https://api.example.org",
    "sshpass -p {} ssh host",
    "redis-cli -h cache -a {} ping",
    "ConvertTo-SecureString '{}' -AsPlainText",
    "~/.pgpass: db.internal:5432:shop:app:{}",
)
"""Places of nothing but a secret, so that even a word there is one."""
WHERE: Final[dict[str, Callable[[str], str]]] = {
    "a message": lambda text: text,
    "a line of a result": lambda text: f"$ run\n{text}\n0",
    "arguments of a call": lambda text: json.dumps({"command": text}),
    "arguments in arguments": lambda text: json.dumps({"input": json.dumps({"command": text})}),
}
"""Texts of a session that may hold a secret."""

_FORMED: Final = (
    "commit {h40}",
    "sha256:{h64}",
    "md5 {h32}",
    "{uuid}",
    "req_{uuid}",
    "ssh-rsa AAAAB3NzaC1yc2E{b300} me@host",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{b43} me@host",
    "-----BEGIN CERTIFICATE-----\nMII{b60}\n{b64}\n-----END CERTIFICATE-----",
    '"integrity": "sha512-{b86}=="',
    "sha384-{b64}",
    "data:image/png;base64,iVBORw0KGgo{b200}==",
    "https://docs.google.com/document/d/1{w43}/edit",
    "/nix/store/{l32}-glibc-2.38/lib",
    "dist/assets/index-{a8}.js",
    "build/{h40}/out.o",
    "sess_01{H24}",
    "call_{a24}",
    "toolu_01{a22}",
    "msg_{a24}",
    "chatcmpl-{a29}",
    "run_{h32}",
    "secret: projects/p1/secrets/db{d1}",
    "a bearer token{d3}",
    "password: required",
    "password = os.environ['DB_PASSWORD']",
    "password=getpass.getpass()",
    "token = self.tokens[{d2}]",
    "api_key=${API_KEY}",
    "password: <your-password>",
    'api_key="YOUR_API_KEY"',
    "secret: changeme",
    "Password must have {d2} characters.",
    "the token count is {d5}",
    "max_tokens={d4}",
    "tokens: {d5}",
    "next_page_token={w40}",
    "cache_key=user:{d6}:{h32}",
    "primary key: id{d4}",
    "key: value{d2}",
    '"key": "translation.page.title{d1}"',
    "sort_key=created_at",
    "public_key={b43}=",
    "idempotency_key={uuid}",
    "author: jane{d3}",
    "authority=example{d2}.org",
    "https://registry.example.org:443/@scope/pkg",
    "http://localhost:8501/@id",
    "git@github.com:org/repo{d2}.git",
    "user@host{d2}.example.org",
    "2026-11-{d2}T10:00:00.{d6}Z",
    "v1.{d2}.{d3}-beta+{h7}",
    "GET /api/v1/learners/{L8}/runs?limit={d3}",
    "--max-tokens {d4}",
    "--keyword parser",
    "mysql -p -u root",
    "curl -u admin https://x",
    "docker pull img@sha256:{h64}",
    'ETag: W/"{h32}"',
    "aa:bb:cc:{h2}:{h2}:{h2}",
    "SHA256:{b43}",
    "Cookie: theme=dark",
    "import { useAuthToken } from './auth{d1}'",
    "def set_password(self, password: str) -> None:",
    "class TokenBucket{d2}(Base):",
    "password_hash",
    "AccessTokenExpired{d2}Error",
    "/Users/paul/src/entireio/cli/cmd/entire/cli/setup{d2}_test.go",
    "node_modules/@babel/helper-plugin-utils/lib/index{d1}.js",
    "x-request-id: {uuid}",
    "trace_{h32}",
    "layer-{h64}",
    "MINIMUM_WINDOWS_BUILD_VT{d3}",
    "DXGI_FORMAT_BC{d1}H_UF{d2}",
    "Linux_Python_{d2}_32bit_full",
    "orjson-3.10.{d2}-cp311-cp311-manylinux_2_17_x86_64.whl",
    "self._correct_for_mysql_bugs_{d5}_{d5}",
    "Cryptography_HAS_PSK_TLSv1_{d1}",
    "castro-20{d2}-fast-krippendorff",
    "<li key='item-{d4}'>",
    "<key>CFBundleIdentifier</key><string>org.example.app{d2}</string>",
    "<Key>logs/2026/01/{d2}/part-00000-{uuid}.parquet</Key>",
    "<password>required</password>",
    '<input type="password" name="password" autocomplete="current-password">',
    "redis-cli -h cache -p {d4} ping",
    "Authorization: see the page of your provider",
    "fc_{h48}",
    "my-bucket-{l8}-{d12}",
    "pass: {d3}, fail: {d1}, skip: {d2}",
    "password=userPasswordField",
    "password: userPasswordInput.value",
    "SELECT password_hash FROM users WHERE token_id = $1",
    "tr -d '$1$2' | awk '{{print $6}}'",
)

SENTENCES: Final = (
    "I set {} in the shell.",
    "The file says {} here",
    '{{"trace": "{}"}}',
    "- {}\n- next",
    "{}",
    "`{}` works, thanks.",
)


def fill_form(form: str, chance: random.Random) -> str:
    """Return a form with its parts drawn."""

    def drawn(part: re.Match[str]) -> str:
        if part[1] is None:
            return "-".join("".join(chance.choices(_LETTERS["h"], k=n)) for n in (8, 4, 4, 4, 12))
        return "".join(chance.choices(_LETTERS[part[1]], k=int(part[2])))

    return _PART.sub(drawn, form)


def _words(chance: random.Random, n: int, join: str) -> str:
    words = [
        "get",
        "row",
        "of",
        "training",
        "export",
        "parser",
        "state",
        "run",
        "layer",
        "page",
        "test",
        "cache",
        "list",
    ]
    return join.join(chance.choices(words, k=n))


def _base64(chance: random.Random, n: int) -> str:
    return base64.b64encode(chance.randbytes(n)).decode()


HARMLESS: Final[tuple[Callable[[random.Random], str], ...]] = (
    *((lambda chance, form=form: fill_form(form, chance)) for form in _FORMED),
    lambda chance: _words(chance, 7, "-"),
    lambda chance: _words(chance, 7, "_"),
    lambda chance: "".join(word.title() for word in _words(chance, 8, " ").split()),
    lambda chance: _base64(chance, 900),
    lambda chance: "/".join(_words(chance, 9, " ").split()),
)
"""Kinds of harmless texts."""


def in_sentence(secret: str, chance: random.Random) -> str:
    """Return a text inside a sentence, as agents write it."""
    return chance.choice(SENTENCES).replace("{}", secret)
