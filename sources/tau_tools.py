"""What the tools of the tau benchmarks do to the world: the benchmarks' own declaration, as a table.

Source: the tool type declared for each tool of the domains airline, retail, telecom and mock in
``sierra-research/tau2-bench``; tau-bench has the same airline and retail tools. Types READ and THINK are ``read``,
WRITE is ``write``. GENERIC says neither: of these only ``calculate``, which is arithmetic, is listed.
"""

_READ = frozenset(
    {
        *("get_reservation_details", "get_user_details", "list_all_airports", "search_direct_flight"),
        *("search_onestop_flight", "get_flight_status", "find_user_id_by_name_zip", "find_user_id_by_email"),
        *("get_order_details", "get_product_details", "get_item_details", "list_all_product_types"),
        *("get_customer_by_phone", "get_customer_by_id", "get_customer_by_name", "get_details_by_id"),
        *("get_bills_for_customer", "get_data_usage", "get_users", "think", "calculate"),
    }
)
_WRITE = frozenset(
    {
        *("book_reservation", "cancel_reservation", "send_certificate", "update_reservation_baggages"),
        *("update_reservation_flights", "update_reservation_passengers", "cancel_pending_order"),
        *("exchange_delivered_order_items", "modify_pending_order_address", "modify_pending_order_items"),
        *("modify_pending_order_payment", "modify_user_address", "return_delivered_order_items"),
        *("suspend_line", "resume_line", "send_payment_request", "enable_roaming", "disable_roaming"),
        *("refuel_data", "create_task", "update_task_status"),
    }
)


def access(tool: str | None) -> str:
    """Return ``read``, ``write`` or ``unknown``."""
    return "read" if tool in _READ else "write" if tool in _WRITE else "unknown"
