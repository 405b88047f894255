"""Parts of a URL that say who came from where, not which page is meant: a table.

Names are in lower case. A name belongs here when sites and advertisers add it to addresses of
pages that are the same without it; names that also serve as real parameters (`ref`, `source`,
`id`) do not belong here, since two pages taken for one are worse than one page visited twice.
"""

from typing import Final

TRACKING_PREFIXES: Final = (
    "utm_",  # Google Analytics, and everybody since
    "hsa_",  # HubSpot advertisements
    "mtm_",  # Matomo
    "matomo_",
    "piwik_",
    "pk_campaign",
    "pk_kwd",
    "pk_source",
    "pk_medium",
    "pk_content",
    "at_campaign",  # AT Internet
    "at_medium",
    "fb_action_",
    "__hs",  # HubSpot
    "bsft_",  # Blueshift
    "trk_",
)

TRACKING: Final = frozenset(
    {
        # Click identifiers
        "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid",
        "fbclid", "msclkid", "yclid", "ysclid", "ymclid", "twclid", "ttclid", "li_fat_id", "epik",
        "igshid", "igsh", "irclickid", "irgwc", "rdt_cid", "sccid", "wickedid", "rb_clickid",
        "clickid", "zanpid", "admitad_uid", "cjevent", "tduid",
        # Analytics that carry a visitor over
        "_ga", "_gl", "_gac", "_ke", "_kx", "_openstat", "_branch_match_id", "_branch_referrer",
        # Mail campaigns
        "mc_cid", "mc_eid", "_hsenc", "_hsmi", "hsctatracking", "mkt_tok", "oly_anon_id",
        "oly_enc_id", "vero_id", "vero_conv", "ml_subscriber", "ml_subscriber_hash", "dm_i",
        "sc_src", "sc_llid", "sc_lid", "sc_uid", "ss_email_id", "s_cid", "cmpid", "elqtrackid",
        "elqtrack", "ck_subscriber_id", "guccounter", "guce_referrer", "guce_referrer_sig",
        # Shops and social networks
        "spm", "scm", "share_token", "fb_ref", "fb_source", "ref_src", "ref_url",
        "__twitter_impression", "__s", "xtor",
    }
)  # fmt: skip

SESSIONS: Final = frozenset(
    {"jsessionid", "phpsessid", "aspsessionid", "asp.net_sessionid", "cfid", "cftoken", "oscsid",
     "zenid", "xtcsid", "psessid", "bv_sessionid", "plack_session", "ci_session"}
)  # fmt: skip
"""Parameters that are a session whatever their value is."""

SESSION_PREFIXES: Final = ("aspsessionid",)

PERHAPS_SESSIONS: Final = frozenset(
    {"sid", "sessid", "sessionid", "session_id", "session", "session-id", "sesskey", "phpsession",
     "s_id", "usid", "token_session"}
)  # fmt: skip
"""Parameters that are a session where their value looks like one."""
