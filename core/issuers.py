"""Issuers of keys and tokens: the prefix of each, and the form of the rest.

Rows are facts of public lists: the rules of gitleaks, the partner patterns of GitHub's secret scanning, and the
issuers' documentation, as of 2026-11. A row has the issuer, the kind that a report names, the fixed parts of which
one must be in a text, and the form. ``near`` is a word that must be in the text, where the form says too little.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

IssuedKind = Literal[
    "aws_access_key",
    "api_key",
    "github_token",
    "gitlab_token",
    "slack_token",
    "google_api_key",
    "hugging_face_token",
    "stripe_key",
    "package_token",
    "issued_token",
]
BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4}))"
"""Start of a form: no letter or digit before it, but for an escape of JSON."""
_AFTER: Final = r"(?![A-Za-z0-9])"

_L: Final = "[A-Za-z0-9]"
_W: Final = "[A-Za-z0-9_-]"
_H: Final = "[0-9a-f]"
_MOST: Final = 999
"""Letters of a key whose length the issuer does not bound."""
_UUID: Final = f"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"


class Issuer(NamedTuple):
    """A row of the table."""

    name: str
    kind: IssuedKind
    fixed: tuple[str, ...]
    form: re.Pattern[str]
    near: str | None


def _row(
    name: str, fixed: str, form: str, kind: IssuedKind = "issued_token", near: str | None = None
) -> Issuer:
    """Return a row; ``fixed`` are the fixed parts with spaces between."""
    if form.endswith(",}"):  # its letters go on without a bound, and nothing comes after them
        return Issuer(name, kind, tuple(fixed.split()), re.compile(f"{BEFORE}(?:{form})"), near)
    bounded = re.sub(r"(\{\d+,)\}", rf"\g<1>{_MOST}}}", form)
    return Issuer(name, kind, tuple(fixed.split()), re.compile(f"{BEFORE}(?:{bounded}){_AFTER}"), near)


ISSUERS: Final = (
    _row(
        "Amazon Web Services", "AKIA ASIA ABIA ACCA", "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", "aws_access_key"
    ),
    _row("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", f"gh[pousr]_{_L}{{30,}}", "github_token"),
    _row("GitHub, fine-grained", "github_pat_", "github_pat_[A-Za-z0-9_]{22,}", "github_token"),
    _row(
        "GitLab",
        "glpat- glrt- gldt- glptt- glcbt- glsoat- glft- glffct- glagent- gloas- glimt-",
        "gl(?:pat|rt|dt|ptt|cbt|soat|ft|ffct|agent|oas|imt)-[A-Za-z0-9_.-]{20,}",
        "gitlab_token",
    ),
    _row("GitLab, older runner", "GR1348941", f"GR1348941{_W}{{20,}}", "gitlab_token"),
    _row("Slack", "xox", "xox[abeoprs]-[A-Za-z0-9-]{15,}", "slack_token"),
    _row("Slack, app", "xapp-", "xapp-[0-9]-[A-Z0-9]{1,32}-[0-9]{1,32}-[a-z0-9]{20,}", "slack_token"),
    _row(
        "Slack, webhook",
        ".slack.com/",
        f"hooks\\.slack\\.com/(?:services|workflows|triggers)/{_L}{{8,64}}/{_L}{{8,64}}/{_L}{{16,}}",
        "slack_token",
    ),
    _row("Google, key", "AIza", f"AIza{_W}{{35}}", "google_api_key"),
    _row("Google, client", "GOCSPX-", f"GOCSPX-{_W}{{28}}", "google_api_key"),
    _row("Google, access", "ya29.", f"ya29\\.{_W}{{20,}}", "google_api_key"),
    _row("Hugging Face", "hf_ api_org_", f"(?:hf_|api_org_){_L}{{30,}}", "hugging_face_token"),
    _row("Stripe", "k_live_ k_test_", f"[rs]k_(?:live|test)_{_L}{{16,}}", "stripe_key"),
    _row("Stripe, webhook", "whsec_", "whsec_[A-Za-z0-9+/]{24,}={0,2}", "stripe_key"),
    _row("npm", "npm_", f"npm_{_L}{{36}}", "package_token"),
    _row("PyPI", "pypi-", f"pypi-{_W}{{50,}}", "package_token"),
    _row("RubyGems", "rubygems_", f"rubygems_{_H}{{48}}", "package_token"),
    _row("crates.io", "cio", f"cio{_L}{{32}}", "package_token", near="cargo"),
    _row("NuGet", "oy2", "oy2[a-z0-9]{43}", "package_token"),
    _row("Clojars", "CLOJARS_", "CLOJARS_[A-Za-z0-9]{60}", "package_token"),
    _row("Docker Hub", "dckr_pat_ dckr_oat_", f"dckr_[po]at_{_W}{{27,}}", "package_token"),
    _row("Artifactory", "AKCp cmVmdGtu", f"(?:AKCp{_L}{{60,}}|cmVmdGtu{_L}{{56}})", "package_token"),
    _row("Adafruit", "aio_", f"aio_{_L}{{28}}"),
    _row("age", "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _row("Airtable", "pat", f"pat{_L}{{14}}\\.{_H}{{64}}"),
    _row("Alibaba Cloud", "LTAI", f"LTAI{_L}{{17,21}}"),
    _row("Anthropic, admin", "sk-ant-", f"sk-ant-[a-z]{{1,12}}[0-9]{{2}}-{_W}{{40,}}", "api_key"),
    _row("Atlassian", "ATATT3 ATCTT3 ATBB", f"(?:AT[AC]TT3[A-Za-z0-9_=-]{{50,}}|ATBB{_L}{{32}})"),
    _row(
        "Azure, storage",
        "AccountKey= SharedAccessKey=",
        "(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{42,88}={0,2}",
    ),
    _row("Azure, application", "Q~", f"{_W}{{3}}[0-9]Q~[A-Za-z0-9_.~-]{{31,34}}"),
    _row("Brevo", "xkeysib- xsmtpsib-", f"x(?:key|smtp)sib-{_H}{{64}}-{_L}{{16}}"),
    _row("Buildkite", "bkua_ bkaj_", f"bk(?:ua|aj)_{_H}{{40}}"),
    _row("CircleCI", "CCIPAT_ CCIPRJ_", "CCIP(?:AT|RJ)_[A-Za-z0-9_]{40,}"),
    _row("Cloudflare, origin", "v1.0-", f"v1\\.0-{_H}{{24}}-{_H}{{146}}"),
    _row("Contentful", "CFPAT-", f"CFPAT-{_W}{{43}}"),
    _row("Databricks", "dapi", f"dapi{_H}{{32}}(?:-[0-9])?"),
    _row("Datadog, application", "ddapp_ ddapi_", f"ddap[pi]i?_{_L}{{30,}}"),
    _row("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", f"do[opr]_v1_{_H}{{64}}"),
    _row("Discord, bot", "MT Mj Mz ND NT Nj Nz OD OT", f"[MNO]{_W}{{23,27}}\\.{_W}{{6}}\\.{_W}{{27,38}}"),
    _row(
        "Discord, webhook", "/api/webhooks/", f"discord(?:app)?\\.com/api/webhooks/[0-9]{{17,20}}/{_W}{{60,}}"
    ),
    _row("Doppler", "dp.", f"dp\\.(?:pt|st|ct|sa|scim|audit)\\.(?:[a-z0-9_-]{{1,35}}\\.)?{_L}{{40,44}}"),
    _row("Dropbox", "sl.", f"sl\\.(?:u\\.)?{_W}{{100,}}"),
    _row("Duffel", "duffel_", f"duffel_(?:test|live)_{_W}{{43}}"),
    _row("Dynatrace", "dt0", "dt0[a-z][0-9]{2}\\.[A-Z0-9]{24}\\.[A-Z0-9]{64}"),
    _row("EasyPost", "EZAK EZTK", f"EZ[AT]K{_L}{{54}}"),
    _row("Figma", "figd_ figo_", f"fig[do]_{_W}{{38,}}"),
    _row("Fireworks", "fw_", f"fw_{_L}{{22,}}", near="ireworks"),
    _row("Flutterwave", "FLWSECK", f"FLWSECK(?:_TEST)?-{_L}{{12,}}(?:-X)?"),
    _row("Fly.io", "fo1_ fm1 fm2_", f"(?:fo1_{_W}{{43}}|fm[12][ar]?_[A-Za-z0-9+/]{{60,}}={{0,3}})"),
    _row("Frame.io", "fio-u-", "fio-u-[A-Za-z0-9_=-]{64}"),
    _row("Grafana", "glsa_ glc_", f"(?:glsa_{_L}{{32}}_{_H}{{8}}|glc_[A-Za-z0-9+/]{{32,}}={{0,3}})"),
    _row("Groq", "gsk_", f"gsk_{_L}{{48,56}}", "api_key"),
    _row("HashiCorp Vault", "hvs. hvb. hvr.", f"hv[sbr]\\.{_W}{{24,}}"),
    _row("HashiCorp Terraform", ".atlasv1.", f"{_L}{{14}}\\.atlasv1\\.{_W}{{60,}}"),
    _row("Heroku", "HRKU-", f"HRKU-(?:{_UUID}|{_W}{{58,}})"),
    _row("HubSpot", "pat-na1- pat-eu1-", f"pat-(?:na|eu)[0-9]-{_UUID}"),
    _row("Infracost", "ico-", f"ico-{_L}{{32}}"),
    _row("LangSmith", "lsv2_", f"lsv2_(?:pt|sk)_{_H}{{32}}_{_H}{{10}}"),
    _row("Linear", "lin_api_ lin_oauth_", f"lin_(?:api_{_L}{{40}}|oauth_{_H}{{64}})"),
    _row("Lob", "live_ test_", f"(?:live|test)_(?:pub_)?{_H}{{31,35}}"),
    _row("Mailchimp", "-us", f"{_H}{{32}}-us[0-9]{{1,2}}"),
    _row("Mailgun", "key- pubkey-", f"(?:pub)?key-{_H}{{32}}"),
    _row("MaxMind", "_mmk", f"{_L}{{6}}_{_L}{{29}}_mmk"),
    _row("MessageBird, Plaid", "access-", f"access-(?:sandbox|development|production)-{_UUID}"),
    _row("Meta", "EAA", f"EAA[A-Z0-9]{_L}{{60,}}"),
    _row(
        "Microsoft Teams, webhook",
        ".office.com/",
        f"webhook\\.office\\.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/{_H}{{32}}/{_UUID}",
    ),
    _row("Netlify", "nfp_ nfc_ nfo_ nfu_", f"nf[pcou]_{_L}{{36}}"),
    _row("New Relic", "NRAK- NRII- NRIQ- NRRA- NRSP- NRJS-", f"NR(?:AK|II|IQ|RA|SP|JS)-{_W}{{19,}}"),
    _row("Notion", "ntn_ secret_", f"(?:ntn_[0-9]{{11}}{_L}{{32,}}|secret_{_L}{{43}})"),
    _row("NVIDIA", "nvapi-", f"nvapi-{_W}{{60,}}", "api_key"),
    _row("Octopus Deploy", "API-", "API-[A-Z0-9]{26}"),
    _row(
        "1Password",
        "ops_eyJ A3-",
        "(?:ops_eyJ[A-Za-z0-9+/]{100,}={0,3}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3})",
    ),
    _row("Perplexity", "pplx-", f"pplx-{_L}{{40,}}", "api_key"),
    _row("Pinecone", "pcsk_", f"pcsk_[A-Za-z0-9]{{5,6}}_{_L}{{60,}}", "api_key"),
    _row("PlanetScale", "pscale_", "pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,64}"),
    _row("Postman", "PMAK-", f"PMAK-{_H}{{24}}-{_H}{{34}}"),
    _row("Prefect", "pnu_ pnb_", f"pn[ub]_{_L}{{36}}"),
    _row("Pulumi", "pul-", f"pul-{_H}{{40}}"),
    _row("ReadMe", "rdme_", "rdme_[a-z0-9]{70}"),
    _row("Render", "rnd_", f"rnd_{_L}{{28,}}"),
    _row("Replicate", "r8_", f"r8_{_L}{{37}}", "api_key"),
    _row("Resend", "re_", f"re_{_L}{{8}}_{_L}{{24}}"),
    _row("Scalingo", "tk-us-", f"tk-us-{_W}{{48}}"),
    _row("Segment", "sgp_", f"sgp_(?:local_|{_H}{{16}}_)?{_L}{{40,64}}"),
    _row("SendGrid", "SG.", f"SG\\.{_W}{{20,24}}\\.{_W}{{39,50}}"),
    _row("Sentry", "sntrys_ sntryu_", f"(?:sntrys_eyJ[A-Za-z0-9+/=_]{{60,}}|sntryu_{_H}{{64}})"),
    _row(
        "Sentry, address", "://", f"https?://{_H}{{32}}(?::{_H}{{32}})?@[A-Za-z0-9.-]{{1,200}}/[0-9]{{1,20}}"
    ),
    _row("Shippo", "shippo_", f"shippo_(?:live|test)_{_H}{{40}}"),
    _row("Shopify", "shpat_ shpca_ shppa_ shpss_", "shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _row("SonarQube", "squ_ sqp_ sqa_", f"sq[upa]_{_H}{{40}}"),
    _row("Sourcegraph", "slk_", f"slk_{_H}{{64}}"),
    _row("Square", "sq0 EAAA", f"(?:sq0(?:atp|csp|idp)-{_W}{{22,43}}|EAAA{_W}{{60}})"),
    _row("Supabase", "sbp_ sb_secret_", f"(?:sbp_(?:v0_)?{_H}{{40}}|sb_secret_{_W}{{20,}})"),
    _row("Tailscale", "tskey-", f"tskey-(?:[a-z]{{1,12}}-)?{_L}{{8,64}}-{_L}{{20,}}"),
    _row("Telegram", ":AA", f"[0-9]{{8,10}}:AA{_W}{{33}}"),
    _row("Tencent Cloud", "AKID", f"AKID{_L}{{32}}"),
    _row("Twilio", "SK", f"SK{_H}{{32}}"),
    _row("Twilio, account", "AC", f"AC{_H}{{32}}[^0-9A-Za-z](?:.{{0,60}}[^0-9A-Za-z])?{_H}{{32}}"),
    _row("Typeform", "tfp_", "tfp_[A-Za-z0-9_=.-]{40,}"),
    _row("Vercel", "vcp_ vca_ vci_ vcr_ vck_", f"vc[pcairk]_{_L}{{24,}}"),
    _row("Volcengine", "AKLT", f"AKLT{_W}{{43}}"),
    _row("Amazon Bedrock", "bedrock-api-key-", "bedrock-api-key-[A-Za-z0-9+/]{40,}={0,2}", "api_key"),
    _row(
        "Authress",
        ".acc-",
        "sc_[a-z0-9]{5,30}\\.[a-z0-9]{4,6}\\.acc-[a-z0-9-]{10,32}\\.[A-Za-z0-9+/_=-]{30,120}",
    ),
    _row("Defined Networking", "dnkey-", "dnkey-[A-Za-z0-9_=-]{26}-[A-Za-z0-9_=-]{52}"),
    _row("Firecrawl", "fc-", f"fc-{_H}{{32}}", "api_key"),
    _row("Harness", "pat. sat.", f"[ps]at\\.{_W}{{22}}\\.{_H}{{24}}\\.{_L}{{20}}"),
    _row("Intra42", "s-s4t2", f"s-s4t2(?:ud|af)-{_H}{{64}}"),
    _row("LaunchDarkly", "sdk- api-", f"(?:sdk|api)-{_UUID}"),
    _row("Paddle", "pdl_", f"pdl_(?:live_|sdbx_)?apikey_[a-z0-9]{{26}}_{_L}{{22}}_{_L}{{3}}"),
    _row("xAI", "xai-", f"xai-{_L}{{70,}}", "api_key"),
)
